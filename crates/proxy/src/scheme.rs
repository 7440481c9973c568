//! Schemes of URLs that can be asked for.

/// How a resource is asked for. `https` goes through `CONNECT` so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
}

impl Scheme {
    /// As URLs write it, in any case (RFC 3986 section 3.1).
    pub fn of(text: &str) -> Option<Scheme> {
        [Scheme::Http].into_iter().find(|scheme| text.eq_ignore_ascii_case(scheme.as_str()))
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
        }
    }

    /// The port of an authority that names none.
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
        }
    }
}
