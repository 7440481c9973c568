//! What a setting's text means: sizes, times, addresses, lists.

use crate::settings::{Cache, CacheMemory};
use proxy::{Address, KeyFiles, Listen, Speaks, UnixPath};
use rustls::pki_types::ServerName;
use std::net::IpAddr;
use std::ops::RangeInclusive;
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

/// `250ms`, `30s`, `10min`, `1h`, `30d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 6] =
        [("ms", 1), ("min", 60_000), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let wrong = || format!("`{text}` is not a time: write a number with ms, s, min, h or d");
    let (number, unit) =
        UNITS.iter().find_map(|(unit, ms)| text.strip_suffix(unit).map(|n| (n, *ms))).ok_or_else(wrong)?;
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(unit).map(Duration::from_millis).ok_or_else(wrong)
}

/// A size in a time: `200GiB/day`, `8GiB/hour`, `1TiB/week`.
pub fn rate(text: &str) -> Result<(u64, Duration), String> {
    const PERIODS: [(&str, u64); 3] = [("hour", 1), ("day", 24), ("week", 7 * 24)];
    let wrong =
        || format!("`{text}` is not a size in a time: write one like 200GiB/day, with hour, day or week");
    let (bytes, period) = text.split_once('/').ok_or_else(wrong)?;
    let hours = PERIODS.iter().find(|(name, _)| *name == period.trim()).ok_or_else(wrong)?.1;
    Ok((size(bytes).map_err(|_| wrong())?, Duration::from_secs(hours * 3600)))
}

/// Values separated by commas or blanks, at least one.
pub fn list<T>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let items: Vec<T> = text
        .split([',', ' ', '\t'])
        .filter(|item| !item.is_empty())
        .map(parse)
        .collect::<Result<_, String>>()?;
    if items.is_empty() { Err("a value is missing".into()) } else { Ok(items) }
}

/// Caches that one proxy may have.
const CACHES: usize = 64;

/// Caches on disk, `PATH[,size=SIZE][,weight=N]` each.
pub fn caches<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Cache>, String> {
    let caches: Vec<Cache> = texts.map(cache).collect::<Result<_, _>>()?;
    if caches.len() > CACHES {
        return Err(format!("{} caches: there may be {CACHES}", caches.len()));
    }
    if caches.len() > 1 && caches.iter().any(|cache| cache.path.as_os_str() == "off") {
        return Err("`off` stands alone; write ./off for a file of that name".into());
    }
    for (n, cache) in caches.iter().enumerate() {
        if caches[..n].iter().any(|other| other.path == cache.path) {
            return Err(format!("{} is there twice", cache.path.display()));
        }
    }
    let some = caches.iter().any(|cache| cache.weight.is_some());
    match caches.iter().find(|cache| some && cache.weight.is_none()) {
        Some(without) => {
            Err(format!("give each cache a weight, or none: {} has none", without.path.display()))
        }
        None => Ok(caches),
    }
}

/// One of them. What follows a comma, and gives nothing a value, is of the path.
fn cache(text: &str) -> Result<Cache, String> {
    let (mut path, mut size, mut weight) = (text, None, None);
    while let Some((before, last)) = path.rsplit_once(',') {
        let (name, twice) = match last.split_once('=') {
            Some(("size", value)) => {
                ("size", size.replace(size_within(value, &(2 << 20..=u64::MAX))?).is_some())
            }
            Some(("weight", value)) => ("weight", weight.replace(count(value, &(1..=1_000_000))?).is_some()),
            // Hardly a file's name.
            Some((name, _)) if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()) => {
                return Err(format!("`{name}` is nothing that a cache has: size or weight"));
            }
            _ => break,
        };
        if twice {
            return Err(format!("`{name}` is there twice in `{text}`"));
        }
        path = before;
    }
    if path.is_empty() {
        return Err(format!("a path is missing before `{text}`"));
    }
    Ok(Cache { path: path.into(), size, weight, memory: CacheMemory::default() })
}

/// An address and a port, or the path of a Unix socket; what others take for one gets a hint.
pub fn address(text: &str) -> Result<Address, String> {
    if text.starts_with(UnixPath::PREFIX) {
        return text.parse();
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_name = host.bytes().any(|b| b.is_ascii_alphabetic()) && !host.contains([':', '/']);
    Err(match (bare, port.parse::<u16>()) {
        (Ok(IpAddr::V4(ip)), _) => format!("`{text}` has no port: write {ip}:PORT"),
        (Ok(IpAddr::V6(ip)), _) => format!("`{text}` has no port: write [{ip}]:PORT"),
        (_, Ok(port)) if matches!(host, "" | "*") => format!(
            "`{text}` has no address: write 127.0.0.1:{port} for clients on this host alone, or 0.0.0.0:{port} or \
             [::]:{port} for those of other hosts"
        ),
        (_, Ok(port)) if is_name => {
            format!("`{text}` has a name: write an address, like 127.0.0.1:{port}")
        }
        _ if text.starts_with('/') => format!("`{text}` is a path: write unix:{text}"),
        _ => format!("`{text}` is not an address with a port, like 127.0.0.1:3128, or unix:/PATH"),
    })
}

/// The same, and what is spoken there: `tls:ADDRESS`, `redirect:ADDRESS`.
pub fn listen(text: &str) -> Result<Listen, String> {
    let (speaks, at) = Speaks::split(text);
    Ok(Listen { address: address(at)?, speaks })
}

/// Certificates with their keys: `FILE` with both, `CHAIN:KEY`, or a folder with fullchain.pem and privkey.pem.
pub fn certificates(text: &str) -> Result<Vec<KeyFiles>, String> {
    list(text, |one| Ok(KeyFiles::of(one)))
}

/// `https://HOST…`, as it is.
pub fn https_url(text: &str) -> Result<String, String> {
    let url: Option<http::Uri> = text.parse().ok();
    match url.is_some_and(|url| {
        url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty())
    }) {
        true => Ok(text.into()),
        false => Err(format!("`{text}` is no URL with https, such as https://acme.example/directory")),
    }
}

/// What Strict-Transport-Security says (RFC 6797 section 6.1).
pub fn hsts(text: &str) -> Result<http::HeaderValue, String> {
    let age = text.get(..8).filter(|name| name.eq_ignore_ascii_case("max-age=")).map(|_| &text[8..]);
    let age = age.map(|rest| rest.split(';').next().unwrap_or_default().trim());
    match age.is_some_and(|age| !age.is_empty() && age.bytes().all(|byte| byte.is_ascii_digit())) {
        true => http::HeaderValue::try_from(text).map_err(|_| format!("`{text}` is no field's value")),
        false => Err(format!(
            "`{text}` does not begin with max-age=SECONDS, like max-age=31536000; includeSubDomains"
        )),
    }
}

/// The name or address that a server proves.
pub fn server_name(text: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(text.to_owned())
        .map_err(|_| format!("`{text}` is no name of a server, like www.example.com"))
}

/// A TCP port.
pub fn port(text: &str) -> Result<u16, String> {
    let port = text.parse::<u16>().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("`{text}` is not a port: 1 to 65535"))
}

/// A whole number within bounds.
pub fn count(text: &str, bounds: &RangeInclusive<u64>) -> Result<u64, String> {
    let number: u64 = text.parse().map_err(|_| format!("`{text}` is not a whole number"))?;
    within(number, bounds, u64::MAX, |n| n.to_string())
}

/// A size within bounds.
pub fn size_within(text: &str, bounds: &RangeInclusive<u64>) -> Result<u64, String> {
    within(size(text)?, bounds, u64::MAX, say_size)
}

/// A time within bounds.
pub fn time_within(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, String> {
    within(duration(text)?, bounds, Duration::MAX, say_time)
}

/// `size`'s own notation.
pub fn say_size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or(format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// As people read it, to a tenth: `1.4 GiB`.
pub fn about_size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.iter().find(|(_, shift)| bytes >= 1 << shift);
    unit.map_or(format!("{bytes} B"), |(unit, shift)| {
        format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64)
    })
}

/// `duration`'s own notation.
pub fn say_time(time: Duration) -> String {
    const UNITS: [(&str, u128); 3] = [("h", 3_600_000), ("min", 60_000), ("s", 1_000)];
    let ms = time.as_millis();
    let unit = UNITS.iter().find(|(_, unit)| ms > 0 && ms.is_multiple_of(*unit));
    unit.map_or(format!("{ms}ms"), |(name, unit)| format!("{}{name}", ms / unit))
}

/// `unbounded` is the largest value there is, of which nobody needs to be told.
fn within<T: PartialOrd + Copy>(
    value: T,
    bounds: &RangeInclusive<T>,
    unbounded: T,
    say: impl Fn(T) -> String,
) -> Result<T, String> {
    let (least, most) = (*bounds.start(), *bounds.end());
    if bounds.contains(&value) {
        Ok(value)
    } else if most == unbounded {
        Err(format!("{} is too small: at least {}", say(value), say(least)))
    } else {
        Err(format!("{} is out of bounds: {} to {}", say(value), say(least), say(most)))
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
        for (text, ms) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("2min", 120_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("30d", 2_592_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["", "s", "30", "-1s", "1.5s", "9999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(list("443, 563", port), Ok(vec![443, 563]));
        assert!(list("443,x", port).is_err() && list(" ,", port).is_err());
        assert!(count("0", &(1..=9)).is_err());
        for bytes in [0, 1, 65_536, 3 << 30, 1 << 40] {
            assert_eq!(size(&say_size(bytes)), Ok(bytes));
        }
        for (bytes, said) in [(0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (5 << 40, "5.0 TiB")] {
            assert_eq!(about_size(bytes), said);
        }
        for ms in [0, 1, 999, 1_000, 90_000, 120_000, 7_200_000] {
            let time = Duration::from_millis(ms);
            assert_eq!(duration(&say_time(time)), Ok(time));
        }
    }
}
