//! What a certificate is for: names of hosts and addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One name, or address (RFC 8738).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// In lower case.
    Host(String),
    /// `*.` before this.
    Wild(String),
    Address(IpAddr),
}

/// Those of one certificate: at least one, at most `MOST`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Names(Vec<Name>);

/// Names of one certificate, as Let's Encrypt bounds them.
const MOST: usize = 100;

impl Names {
    pub fn iter(&self) -> std::slice::Iter<'_, Name> {
        self.0.iter()
    }

    /// By which it is known.
    pub fn first(&self) -> &Name {
        &self.0[0]
    }

    /// Part of a file's name; of each first name another one.
    pub(crate) fn file_stem(&self) -> String {
        match self.first() {
            Name::Host(host) => host.clone(),
            Name::Wild(host) => format!("_.{host}"),
            Name::Address(address) => address.to_string().replace(':', "-"),
        }
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Name, String> {
        if let Ok(address) = text.parse() {
            return Ok(Name::Address(address));
        }
        let lower = text.to_ascii_lowercase();
        let (is_wild, host) = match lower.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, &*lower),
        };
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        match host.len() <= 253 && host.split('.').all(is_label) {
            true if is_wild => Ok(Name::Wild(host.into())),
            true => Ok(Name::Host(host.into())),
            false => Err(format!(
                "`{text}` is no name of a host, like www.example.com, and no address; others than ASCII letters are written as xn--…"
            )),
        }
    }
}

impl FromStr for Names {
    type Err = String;

    /// With `+` between them.
    fn from_str(text: &str) -> Result<Names, String> {
        let names: Vec<Name> = text.split('+').map(str::parse).collect::<Result<_, _>>()?;
        if let Some((_, twice)) = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name)) {
            return Err(format!("{twice} is there twice"));
        }
        match names.len() <= MOST {
            true => Ok(Names(names)),
            false => Err(format!("a certificate is for {MOST} names at most")),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Host(host) => f.write_str(host),
            Name::Wild(host) => write!(f, "*.{host}"),
            Name::Address(address) => write!(f, "{address}"),
        }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, name) in self.0.iter().enumerate() {
            write!(f, "{}{name}", if n == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_said_alike() {
        for (text, stem) in [
            ("www.example.com", "www.example.com"),
            ("*.example.com+example.com", "_.example.com"),
            ("192.0.2.1", "192.0.2.1"),
            ("2001:db8::1+a.example", "2001-db8--1"),
            ("localhost", "localhost"),
        ] {
            let names: Names = text.parse().unwrap();
            assert_eq!((names.to_string().as_str(), names.file_stem().as_str()), (text, stem));
        }
        assert_eq!("WWW.Example.COM".parse::<Names>().unwrap().to_string(), "www.example.com");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for wrong in [
            "",
            "+",
            "a+",
            "a..b",
            ".a",
            "a.",
            "-a.b",
            "a_b.c",
            "a/b",
            "../a",
            "*",
            "*.",
            "a.*.b",
            "*.*.a",
            "bücher.example",
            "a b",
            "a:443",
            "[::1]",
            "a+A",
        ] {
            let why = wrong.parse::<Names>().unwrap_err();
            assert!(why.lines().count() == 1, "{wrong}: {why}");
        }
        let many = (0..=MOST).map(|n| format!("a{n}.example")).collect::<Vec<_>>().join("+");
        assert!(many.parse::<Names>().unwrap_err().contains("100"));
    }
}
