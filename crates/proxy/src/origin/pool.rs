//! Connections that nobody uses just now, by what they can be used for: the one used last goes out first, and their number
//! is bounded for each key and in all.
//!
//! A connection of HTTP/1 carries one request at a time, so that whoever takes one has it alone until it is put back, and
//! each worker has a pool. Those of HTTP/2 carry many, and do not leave their place (`http2`).

use crate::scheme::Scheme;
use crate::transport::Hop;
use std::collections::HashMap;
use std::rc::Rc;

/// What a connection can be used for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub hop: Hop,
    /// With which one asks: the same hop may take TLS, or not.
    pub scheme: Scheme,
    pub protocol: Protocol,
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Http1,
    Http2,
}

pub struct Pool<T> {
    by_key: HashMap<Rc<Key>, Vec<T>>,
    count: usize,
    per_key: usize,
    in_all: usize,
}

impl<T> Pool<T> {
    pub fn new(per_key: usize, in_all: usize) -> Pool<T> {
        Pool { by_key: HashMap::new(), count: 0, per_key, in_all }
    }

    /// From now on; what is there already stays until it is used.
    pub fn keep_at_most(&mut self, per_key: usize) {
        self.per_key = per_key;
    }

    /// Keeps a connection, unless its key has enough. Where there are enough in all, some key's oldest goes.
    pub fn put(&mut self, key: &Rc<Key>, connection: T) {
        if self.in_all == 0 {
            return;
        }
        if self.count >= self.in_all {
            self.drop_one();
        }
        let connections = self.by_key.entry(key.clone()).or_default();
        if connections.len() < self.per_key {
            connections.push(connection);
            self.count += 1;
        }
    }

    /// The connection that was used last, if it `suits`.
    pub fn take(&mut self, key: &Key, suits: impl FnOnce(&T) -> bool) -> Option<T> {
        let connection = self.by_key.get_mut(key)?.pop_if(|last| suits(last))?;
        self.count -= 1;
        Some(connection)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.by_key.retain(|_, connections| {
            connections.retain(&mut keep);
            !connections.is_empty()
        });
        self.count = self.by_key.values().map(Vec::len).sum();
    }

    /// Which key's is as good as chance.
    fn drop_one(&mut self) {
        let Some((key, connections)) = self.by_key.iter_mut().find(|(_, some)| !some.is_empty()) else {
            return;
        };
        connections.remove(0);
        self.count -= 1;
        if connections.is_empty() {
            let key = key.clone();
            self.by_key.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_for_each_key_and_in_all() {
        let mut pool = Pool::new(3, 10);
        let key = |n: usize| {
            let hop = Hop::host(format!("o{n}").parse().unwrap(), Scheme::Http);
            Rc::new(Key { hop, scheme: Scheme::Http, protocol: Protocol::Http1 })
        };
        let keys: Vec<Rc<Key>> = (0..20).map(key).collect();
        for n in 0..5 {
            pool.put(&keys[0], n);
        }
        let all = |pool: &Pool<i32>| pool.by_key.values().map(Vec::len).sum::<usize>();
        assert_eq!(all(&pool), 3, "two were too many for one");
        assert_eq!(pool.take(&keys[0], |_| false), None);
        assert_eq!(pool.take(&keys[0], |_| true), Some(2), "the last first");
        for (n, key) in (10..).zip(&keys) {
            pool.put(key, n);
            assert_eq!(pool.by_key[key].last(), Some(&n), "what comes last stays");
            assert!(all(&pool) <= 10 && pool.count == all(&pool));
        }
        assert_eq!(all(&pool), 10);
        pool.retain(|n| n % 2 == 0);
        assert_eq!(pool.count, all(&pool));
        let mut none = Pool::new(3, 0);
        none.put(&keys[0], 1);
        assert_eq!(none.take(&keys[0], |_| true), None);
    }
}
