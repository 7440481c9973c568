//! Which servers serve what is prefetchable, and whether they do so again (Maltzahn 6.2.3).
//!
//! A server's *prefetchable service* is what of its misses in a peak was prefetchable. The servers with most of it are a *top group*.

use super::split::share;
use serde::Serialize;
use std::collections::HashMap;

/// Points of a curve that are kept.
const POINTS: usize = 200;

/// What each server served of one peak: bytes of misses that were prefetchable, 0 of a server with other misses only.
pub type Served = HashMap<u32, u64>;

/// The servers of one peak in reverse order of their service (Figure 6.4).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Order {
    /// That served a miss.
    pub servers: usize,
    /// That served something prefetchable.
    pub with_service: usize,
    /// What the tenth of the servers with most of it serves of all prefetchable bytes.
    pub of_top_tenth: f64,
    /// The least share of servers that serves half of the prefetchable bytes.
    pub for_half: f64,
    /// Shares of servers, and what these serve of all; at most 200 points.
    pub curve: Vec<(f64, f64)>,
}

/// Whether a server that serves in one peak serves in the next (Figure 6.5), for one size of the top group. Of each server that served in a
/// peak that another follows: the share of these peaks whose next it served in too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Servers with most service over all peaks.
    pub size: usize,
    /// Those of them that a prediction was made for: that served in a peak that another follows.
    pub predicted: usize,
    /// Over the servers.
    pub mean: f64,
    pub quartiles: [f64; 3],
    /// P[S and D] / P[S] over all servers and peaks together.
    pub pooled: f64,
}

/// What one server did over all peaks.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    bytes: u64,
    last_served: Option<usize>,
    /// Peaks in which it served and that another follows; and of these, those whose next it served in.
    predictions: u32,
    right: u32,
}

pub fn order(served: &Served) -> Order {
    let mut bytes: Vec<u64> = served.values().copied().collect();
    bytes.sort_unstable_by(|a, b| b.cmp(a));
    let (servers, all) = (bytes.len(), bytes.iter().sum::<u64>() as f64);
    if all == 0.0 {
        return Order { servers, ..Order::default() };
    }
    let cumulated: Vec<f64> = bytes
        .iter()
        .scan(0u64, |sum, bytes| {
            *sum += bytes;
            Some(*sum as f64 / all)
        })
        .collect();
    let tenth = servers.div_ceil(10);
    let half = cumulated.iter().position(|sum| *sum >= 0.5).unwrap_or(0) + 1;
    let step = servers.div_ceil(POINTS).max(1);
    let at = |nth: usize| ((nth + 1) as f64 / servers as f64, cumulated[nth]);
    let mut curve: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    curve.extend((0..servers).filter(|nth| nth % step == step - 1 || nth + 1 == servers).map(at));
    Order {
        servers,
        with_service: bytes.iter().filter(|bytes| **bytes > 0).count(),
        of_top_tenth: cumulated[tenth - 1],
        for_half: half as f64 / servers as f64,
        curve,
    }
}

/// The servers in reverse order of what they served in all peaks, which follow each other; and groups of growing sizes.
pub fn groups<'a>(peaks: impl ExactSizeIterator<Item = &'a Served>) -> (Vec<(u32, u64)>, Vec<Group>) {
    let count = peaks.len();
    let mut servers: HashMap<u32, Server> = HashMap::new();
    for (nth, served) in peaks.enumerate() {
        for (name, bytes) in served.iter().filter(|(_, bytes)| **bytes > 0) {
            let server = servers.entry(*name).or_default();
            server.bytes += bytes;
            server.predictions += u32::from(nth + 1 < count);
            server.right += u32::from(nth > 0 && server.last_served == Some(nth - 1));
            server.last_served = Some(nth);
        }
    }
    let mut ordered: Vec<(u32, Server)> = servers.into_iter().collect();
    ordered.sort_unstable_by_key(|(name, server)| (std::cmp::Reverse(server.bytes), *name));
    let sizes = (0..9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10usize.pow(power)));
    let mut sizes: Vec<usize> = sizes.filter(|size| *size >= 10 && *size < ordered.len()).collect();
    sizes.push(ordered.len());
    let groups = sizes.into_iter().filter_map(|size| group(&ordered[..size])).collect();
    (ordered.into_iter().map(|(name, server)| (name, server.bytes)).collect(), groups)
}

/// `None` where nothing was predicted.
fn group(servers: &[(u32, Server)]) -> Option<Group> {
    let predicted = || servers.iter().map(|(_, server)| server).filter(|server| server.predictions > 0);
    let mut values: Vec<f64> =
        predicted().map(|server| f64::from(server.right) / f64::from(server.predictions)).collect();
    values.sort_unstable_by(f64::total_cmp);
    let (right, all) = predicted().fold((0u64, 0u64), |(right, all), server| {
        (right + u64::from(server.right), all + u64::from(server.predictions))
    });
    let last = values.len().checked_sub(1)?;
    Some(Group {
        size: servers.len(),
        predicted: values.len(),
        mean: values.iter().sum::<f64>() / values.len() as f64,
        quartiles: [1, 2, 3].map(|quarter| values[last * quarter / 4]),
        pooled: share(right as f64, all as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_servers_serve_most() {
        // Of 20 servers the first serves 60 of 100, the second 20, the next two 10 each, and others nothing.
        let served: Served =
            (0..20).map(|name| (name, [60, 20, 10, 10].get(name as usize).copied().unwrap_or(0))).collect();
        let order = order(&served);
        assert_eq!((order.servers, order.with_service), (20, 4));
        assert_eq!((order.of_top_tenth, order.for_half), (0.8, 0.05));
        assert_eq!(order.curve[..3], [(0.0, 0.0), (0.05, 0.6), (0.1, 0.8)]);
        assert_eq!(order.curve.last(), Some(&(1.0, 1.0)));
        assert_eq!(super::order(&Served::new()).curve, []);
    }

    #[test]
    fn a_server_serves_again_or_not() {
        // 1 serves always, 2 in every other peak, 3 in the last alone, 4 first and never again.
        let peaks: [&[(u32, u64)]; 4] =
            [&[(1, 50), (2, 9), (4, 1)], &[(1, 50), (2, 0)], &[(1, 50), (2, 9)], &[(1, 50), (3, 5)]];
        let peaks: Vec<Served> = peaks.iter().map(|peak| peak.iter().copied().collect()).collect();
        let (order, groups) = groups(peaks.iter());
        assert_eq!(order, [(1, 200), (2, 18), (3, 5), (4, 1)]);
        // 1: 3 of 3; 2: 0 of 2; 4: 0 of 1; of 3 nothing was predicted.
        let all = Group { size: 4, predicted: 3, mean: 1.0 / 3.0, quartiles: [0.0, 0.0, 0.0], pooled: 0.5 };
        assert_eq!(groups, [all]);
        assert_eq!(super::groups(peaks[..1].iter()).1, []);
    }
}
