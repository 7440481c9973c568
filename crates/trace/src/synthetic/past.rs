//! What was asked for, in its order, of which some may be forgotten.

/// Numbers at places from 0 on. Memory grows with those that are known.
#[derive(Default)]
pub struct Past {
    count: u64,
    known: Vec<u64>,
    /// Of each known one, as soon as there is another; rising.
    places: Option<Vec<u64>>,
}

impl Past {
    pub fn push(&mut self, number: Option<u64>) {
        let place = self.count;
        self.count += 1;
        match (number, &mut self.places) {
            (Some(_), None) => {}
            (Some(_), Some(places)) => places.push(place),
            // Until now all were known.
            (None, places) => drop(places.get_or_insert_with(|| (0..place).collect())),
        }
        self.known.extend(number);
    }

    /// Places there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What is at a place, if that is known.
    pub fn get(&self, place: u64) -> Option<u64> {
        let nth = match &self.places {
            None => usize::try_from(place).ok()?,
            Some(places) => places.binary_search(&place).ok()?,
        };
        self.known.get(nth).copied()
    }

    #[cfg(test)]
    pub fn known(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_keeps_its_place() {
        for told in [&[Some(7), Some(8), None, Some(9), None][..], &[Some(1), Some(2)], &[None, Some(3)], &[]]
        {
            let mut past = Past::default();
            told.iter().for_each(|number| past.push(*number));
            assert_eq!(past.count(), told.len() as u64);
            let found: Vec<_> = (0..past.count()).map(|place| past.get(place)).collect();
            assert_eq!(found, told);
            assert_eq!((past.get(past.count()), past.known()), (None, told.iter().flatten().count()));
        }
    }
}
