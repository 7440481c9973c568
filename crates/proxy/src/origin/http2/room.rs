//! Who waits for a place on a hop's connections, and is told when there may be one.

use super::Wish;
use crate::access::reach::Zone;
use tokio::sync::Notify;

/// Those who wait, by what they can use. Who is told looks for itself, and waits again where there is none.
#[derive(Default)]
pub struct Room([[Notify; Zone::ALL.len()]; 2]);

impl Room {
    pub fn waited_for(&self, wish: Wish) -> &Notify {
        &self.0[usize::from(wish.wide)][wish.client as usize]
    }

    /// There is one place more on a wide or narrow connection, for clients of this zone and nearer ones.
    pub fn frees(&self, wide: bool, needs: Zone) {
        self.0[usize::from(wide)][needs as usize..].iter().for_each(Notify::notify_one);
    }

    /// One connection may give way to another kind.
    pub fn may_give_way(&self) {
        self.0.iter().flatten().for_each(Notify::notify_one);
    }

    /// There may be many places, or none to be waited for.
    pub fn changes(&self) {
        self.0.iter().flatten().for_each(Notify::notify_waiters);
    }
}
