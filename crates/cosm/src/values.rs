//! What a setting's text means: sizes, times, lists.

use std::str::FromStr;
use std::time::Duration;

/// `64KiB`, `1GiB`, `1.5 MiB` or plain bytes.
pub fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32); 5] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("B", 0)];
    let text = text.trim();
    let (number, shift) = UNITS
        .iter()
        .find_map(|(unit, shift)| text.strip_suffix(unit).map(|n| (n.trim(), *shift)))
        .unwrap_or((text, 0));
    let wrong = || format!("`{text}` is not a size: write bytes, or a number with KiB, MiB, GiB or TiB");
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(1 << shift).ok_or_else(wrong),
        Err(_) => {
            let number: f64 = number.parse().map_err(|_| wrong())?;
            let bytes = number * (1u64 << shift) as f64;
            (bytes >= 0.0 && bytes < u64::MAX as f64).then_some(bytes as u64).ok_or_else(wrong)
        }
    }
}

/// `250ms`, `30s`, `10min`, `1h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] =
        [("ms", 1), ("min", 60_000), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    let wrong = || format!("`{text}` is not a time: write a number with ms, s, min or h");
    let (number, unit) =
        UNITS.iter().find_map(|(unit, ms)| text.strip_suffix(unit).map(|n| (n, *ms))).ok_or_else(wrong)?;
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(unit).map(Duration::from_millis).ok_or_else(wrong)
}

/// Values separated by commas or blanks.
pub fn list<T: FromStr<Err: ToString>>(text: &str) -> Result<Vec<T>, String> {
    text.split([',', ' ', '\t'])
        .filter(|item| !item.is_empty())
        .map(|item| item.parse().map_err(|e: T::Err| format!("`{item}`: {}", e.to_string())))
        .collect()
}

/// A whole number within bounds.
pub fn count(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number: u64 = text.parse().map_err(|_| format!("`{text}` is not a whole number"))?;
    within(number, least, most, |n| n.to_string())
}

/// A size within bounds.
pub fn size_within(text: &str, least: u64, most: u64) -> Result<u64, String> {
    within(size(text)?, least, most, say_size)
}

/// `text`'s own notation for a size.
pub fn say_size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or(format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

fn within(number: u64, least: u64, most: u64, say: impl Fn(u64) -> String) -> Result<u64, String> {
    if (least..=most).contains(&number) {
        Ok(number)
    } else if most == u64::MAX {
        Err(format!("{} is too small: at least {}", say(number), say(least)))
    } else {
        Err(format!("{} is out of bounds: {} to {}", say(number), say(least), say(most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_read_as_people_write_them() {
        for (text, bytes) in
            [("0", 0), ("17", 17), ("17B", 17), ("64KiB", 65_536), ("1.5MiB", 1_572_864), ("2 GiB", 2 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "MiB", "-1", "1MB", "99999999TiB", "1e400", "NaN", "x"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        for (text, ms) in
            [("250ms", 250), ("30s", 30_000), ("2min", 120_000), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["", "s", "30", "-1s", "1.5s", "9999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(list::<u16>("443, 563"), Ok(vec![443, 563]));
        assert!(list::<u16>("443,x").is_err());
        assert!(count("0", 1, 9).is_err());
        for bytes in [0, 1, 65_536, 3 << 30, 1 << 40] {
            assert_eq!(size(&say_size(bytes)), Ok(bytes));
        }
    }
}
