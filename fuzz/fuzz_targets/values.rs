//! Sizes, times, addresses and lists in settings. A size said is the size read; units multiply, or the sum is refused; space
//! around a size means nothing; what is read as a list is as long as what is written between its separators.
#![no_main]

use cosm::values::{
    address, count, duration, list, port, say_size, say_time, size, size_within, time_within,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(bytes) = size(text) {
        assert_eq!(size(&say_size(bytes)), Ok(bytes));
        assert_eq!(size(&format!(" {text} ")), Ok(bytes));
        assert_eq!(size_within(text, &(bytes..=bytes)), Ok(bytes));
        assert!(size_within(text, &(bytes.saturating_add(1)..=u64::MAX)).is_err() || bytes == u64::MAX);
    }
    if let Ok(time) = duration(text) {
        assert_eq!(duration(&format!("{}ms", time.as_millis())), Ok(time));
        assert_eq!(duration(&say_time(time)), Ok(time));
        assert_eq!(time_within(text, &(time..=time)), Ok(time));
    }
    if let Ok(number) = count(text, &(3..=9)) {
        assert!((3..=9).contains(&number));
    }
    if let Ok(number) = text.parse::<u64>() {
        assert_eq!(size(text), Ok(number));
        for (unit, shift) in [("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)] {
            assert_eq!(size(&format!("{text}{unit}")).ok(), number.checked_mul(1 << shift));
        }
        let ms = |factor: u64| number.checked_mul(factor).map(std::time::Duration::from_millis);
        for (unit, factor) in [("ms", 1), ("s", 1_000), ("m", 60_000), ("min", 60_000), ("h", 3_600_000)] {
            assert_eq!(duration(&format!("{text}{unit}")).ok(), ms(factor));
        }
    }
    match address(text) {
        Ok(socket) => assert_eq!(address(&socket.to_string()), Ok(socket)),
        Err(why) => assert!(why.starts_with(&format!("`{text}`"))),
    }
    if let Ok(ports) = list(text, port) {
        let items = text.split([',', ' ', '\t']).filter(|item| !item.is_empty());
        assert_eq!(items.count(), ports.len());
        let written: Vec<String> = ports.iter().map(u16::to_string).collect();
        assert_eq!(list(&written.join(", "), port), Ok(ports));
    }
});
