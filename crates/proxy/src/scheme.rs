//! Schemes of URLs that can be asked for.

/// How a resource is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    pub const ALL: [Scheme; 2] = [Scheme::Http, Scheme::Https];

    /// As URLs write it, in any case (RFC 3986 section 3.1).
    pub fn of(text: &str) -> Option<Scheme> {
        Scheme::ALL.into_iter().find(|scheme| text.eq_ignore_ascii_case(scheme.as_str()))
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port of an authority that names none.
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}
