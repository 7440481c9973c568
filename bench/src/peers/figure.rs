//! What is measured: one row here for each figure that a table shows.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

pub struct Figure {
    pub key: &'static str,
    pub label: &'static str,
    pub decimals: usize,
}

/// The first is what contenders are compared by.
pub type Figures = Vec<(&'static Figure, f64)>;

macro_rules! figures {
    ($($name:ident $key:literal $label:literal $decimals:literal)*) => {
        $(pub static $name: Figure = Figure { key: $key, label: $label, decimals: $decimals };)*
    };
}

figures! {
    PER_CPU_SECOND "requests_per_cpu_second" "requests/CPU-s" 0
    PER_SECOND "requests_per_second" "requests/s" 0
    P50 "p50_us" "p50 µs" 0
    P99 "p99_us" "p99 µs" 0
    CORE "core" "its core" 2
    LOAD_CORE "load_core" "load's core" 2
    OTHERS "others_cores" "others" 2
    HITS "hit_percent" "hits %" 2
    READS "device_reads" "reads" 3
    READ_BYTES "device_read_bytes" "bytes read" 0
    OWN_READ_BYTES "own_read_bytes" "by itself" 0
    OWN_WRITTEN_BYTES "own_written_bytes" "by itself" 0
    WRITES "device_writes" "writes" 4
    WRITTEN_BYTES "device_written_bytes" "bytes written" 0
    KEPT "kept_percent" "kept %" 1
    FIRST_HIT "first_hit_ms" "first disk hit ms" 0
    BACK "back_percent" "hits back at once %" 2
    BACK_LATER "back_later_percent" "after its rebuild %" 2
    REBUILT "rebuilt_ms" "rebuilt after ms" 0
    PER_OBJECT "bytes_per_object" "bytes a kept object" 1
    FURTHER_OBJECT "bytes_per_further_object" "after the first tenth" 1
    FIXED "fixed_mib" "at start MiB" 1
    FULL "full_mib" "full MiB" 1
    RESUMED "resumed_percent" "resumed %" 2
    SUSTAINED "sustained_per_second" "sustained requests/s" 0
}

/// One contender in one round of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub scenario: String,
    pub contender: &'static str,
    pub round: u32,
    #[serde(serialize_with = "by_key")]
    pub figures: Figures,
}

impl Row {
    pub fn figure(&self, figure: &Figure) -> Option<f64> {
        self.figures.iter().find(|(one, _)| one.key == figure.key).map(|(_, value)| *value)
    }
}

fn by_key<S: Serializer>(figures: &Figures, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(figures.len()))?;
    for (figure, value) in figures {
        map.serialize_entry(figure.key, value)?;
    }
    map.end()
}

impl std::fmt::Debug for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key)
    }
}

/// A scenario that a contender did not come through: its figure would not be what it says.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    pub scenario: String,
    pub contender: &'static str,
    pub why: String,
}
