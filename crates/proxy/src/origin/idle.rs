//! Connections that nobody uses just now, by origin: the one used last goes out first, and their number is bounded for
//! each origin and in all.

use std::collections::HashMap;
use std::rc::Rc;

pub struct Idle<T> {
    by_origin: HashMap<Rc<str>, Vec<T>>,
    count: usize,
    per_origin: usize,
    in_all: usize,
}

impl<T> Idle<T> {
    pub fn new(per_origin: usize, in_all: usize) -> Idle<T> {
        Idle { by_origin: HashMap::new(), count: 0, per_origin, in_all }
    }

    /// From now on; what is there already stays until it is used.
    pub fn keep_at_most(&mut self, per_origin: usize) {
        self.per_origin = per_origin;
    }

    /// Keeps a connection, unless its origin has enough. Where all have enough, some origin's oldest goes.
    pub fn put(&mut self, origin: &Rc<str>, connection: T) {
        if self.in_all == 0 || self.by_origin.get(origin).map_or(0, Vec::len) >= self.per_origin {
            return;
        }
        if self.count >= self.in_all {
            self.drop_one();
        }
        self.by_origin.entry(origin.clone()).or_default().push(connection);
        self.count += 1;
    }

    /// The connection to an origin that was used last, if it `suits`.
    pub fn take(&mut self, origin: &str, suits: impl FnOnce(&T) -> bool) -> Option<T> {
        let connection = self.by_origin.get_mut(origin)?.pop_if(|last| suits(last))?;
        self.count -= 1;
        Some(connection)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.by_origin.retain(|_, connections| {
            connections.retain(&mut keep);
            !connections.is_empty()
        });
        self.count = self.by_origin.values().map(Vec::len).sum();
    }

    /// Which origin's is as good as chance.
    fn drop_one(&mut self) {
        let Some((origin, connections)) = self.by_origin.iter_mut().find(|(_, some)| !some.is_empty()) else {
            return;
        };
        connections.remove(0);
        self.count -= 1;
        if connections.is_empty() {
            let origin = origin.clone();
            self.by_origin.remove(&origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_for_each_origin_and_in_all() {
        let mut idle = Idle::new(3, 10);
        let origins: Vec<Rc<str>> = (0..20).map(|n| format!("o{n}").into()).collect();
        for n in 0..5 {
            idle.put(&origins[0], n);
        }
        let all = |idle: &Idle<i32>| idle.by_origin.values().map(Vec::len).sum::<usize>();
        assert_eq!(all(&idle), 3, "two were too many for one origin");
        assert_eq!(idle.take("o0", |_| false), None);
        assert_eq!(idle.take("o0", |_| true), Some(2), "the last first");
        for (n, origin) in (10..).zip(&origins) {
            idle.put(origin, n);
            assert_eq!(idle.by_origin[origin].last(), Some(&n), "what comes last stays");
            assert!(all(&idle) <= 10 && idle.count == all(&idle));
        }
        assert_eq!(all(&idle), 10);
        idle.retain(|n| n % 2 == 0);
        assert_eq!(idle.count, all(&idle));
        let mut none = Idle::new(3, 0);
        none.put(&origins[0], 1);
        assert_eq!(none.take("o0", |_| true), None);
    }
}
