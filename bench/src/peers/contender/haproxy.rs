//! HAProxy: a memory cache only.

use super::{CERTIFICATE, Launch, Place, Tier, words};

pub fn launch(place: &Place) -> Launch {
    let (port, origin) = (place.port, place.origin);
    let cache = place.memory_mib().clamp(1, 4095);
    let tls = match place.tier {
        Tier::Tls => format!(" ssl crt /run/{CERTIFICATE} alpn h2,http/1.1"),
        _ => String::new(),
    };
    let text = format!(
        "global
    nbthread 1
    # Two descriptors a connection, of the 20,000 that a process may often have.
    maxconn 9000
    # Messages above notice only; there is no access log unless one is named.
    quiet
defaults
    mode http
    # Idle connections stay.
    timeout connect 10s
    timeout client 300s
    timeout server 300s
    timeout http-keep-alive 300s
    # Connections to the origin are shared by all clients.
    http-reuse always
cache objects
    total-max-size {cache}
    # Above what it measures; larger limits cost nothing.
    max-object-size 524288
    max-age 86400
frontend clients
    bind 127.0.0.1:{port}{tls} backlog 4096
    default_backend origin
backend origin
    http-request cache-use objects
    http-response cache-store objects
    server origin 127.0.0.1:{origin}
"
    );
    let command = words("/usr/sbin/haproxy -db -f /run/haproxy.cfg");
    let files = [("haproxy.cfg", text)].into_iter().chain(place.certificate_file());
    Launch { files: files.collect(), command, ..Launch::default() }
}
