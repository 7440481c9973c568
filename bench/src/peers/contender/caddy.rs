//! Caddy, which has no cache: it answers from files, the objects themselves.

use super::{CERTIFICATE, Launch, Place, words};

pub const NOTE: &str = "Caddy has no cache: it answers from files of the objects, and fetches nothing.";

pub fn launch(place: &Place) -> Launch {
    let port = place.port;
    let text = format!(
        "{{
    admin off
    persist_config off
    auto_https off
    log {{
        level ERROR
    }}
    servers {{
        protocols h1 h2
        timeouts {{
            idle 300s
        }}
    }}
}}
https://:{port} {{
    bind 127.0.0.1
    tls /run/{CERTIFICATE} /run/{CERTIFICATE}
    root * /run/objects
    # As the origin has them; a type that is known is not guessed from the content.
    header {{
        Content-Type application/octet-stream
        Cache-Control max-age=86400
    }}
    file_server
}}
"
    );
    let files = [("Caddyfile", text)].into_iter().chain(place.certificate_file());
    Launch {
        files: files.collect(),
        objects: Some("objects"),
        command: words("/usr/bin/caddy run --config /run/Caddyfile --adapter caddyfile"),
        ..Launch::default()
    }
}
