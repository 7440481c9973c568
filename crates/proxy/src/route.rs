//! Which way requests leave this proxy.

use crate::message::refusal::Refusal;
use crate::message::target::Target;
use crate::scheme::Scheme;
use crate::settings::Settings;
use crate::transport::Hop;

/// What one worker knows of the ways: nothing that it clones for a request is counted by another worker too.
pub struct Route {
    /// Of a reverse proxy.
    origin: Option<(Hop, Scheme)>,
}

impl Route {
    pub fn new(settings: &Settings) -> Route {
        Route { origin: settings.origin.as_ref().map(|origin| (origin.hop.copied(), origin.scheme)) }
    }

    /// The one place where a next hop is chosen: origins by path, or a parent, would be chosen here.
    pub fn next_hop(&self, target: &Target) -> Result<Hop, Refusal> {
        if let Some((hop, _)) = &self.origin {
            return Ok(hop.clone());
        }
        let authority = target.authority().ok_or_else(|| Refusal::bad_request("the URL names no host"))?;
        Ok(Hop::host(authority.clone(), target.scheme))
    }

    /// By which scheme that hop is asked.
    pub fn scheme(&self, target: &Target) -> Scheme {
        self.origin.as_ref().map_or(target.scheme, |(_, scheme)| *scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::target::Reverse;
    use http::Request;

    #[test]
    fn the_next_hop_is_the_targets_own_or_the_configured_one() {
        for (origin, url, hop, port) in [
            (None, "http://a/p", "a", 80),
            (None, "http://A:81/p", "a:81", 81),
            (None, "http://[::1]:81/p", "[::1]:81", 81),
            (None, "https://a/p", "a", 443),
            (Some("https://o"), "/p", "o", 443),
            (Some("http://o:8"), "http://a/p", "o:8", 8),
            (Some("http://o"), "/p", "o", 80),
            (Some("http://unix:/run/app.sock"), "/p", "unix:/run/app.sock", 0),
            (Some("http://unix:/run/app.sock:/"), "http://a/p", "unix:/run/app.sock", 0),
        ] {
            let settings = Settings { origin: origin.map(|o| o.parse().unwrap()), ..Settings::default() };
            let request = Request::get(url).header("host", "a").body(()).unwrap().into_parts().0;
            let target = Target::of(&request, Scheme::Http, Reverse::new(&settings).as_ref()).unwrap();
            let found = Route::new(&settings).next_hop(&target).unwrap();
            assert!(found.to_string().eq_ignore_ascii_case(hop), "{url}: {found}");
            match found {
                Hop::Host(host) => assert_eq!(host.port, port, "{url}"),
                Hop::Unix(_) => assert_eq!(port, 0, "{url}"),
            }
        }
    }
}
