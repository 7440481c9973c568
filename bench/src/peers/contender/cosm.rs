//! Cosm itself, as it comes.

use super::{CERTIFICATE, Launch, Place, Tier, words};
use std::path::Path;

pub fn launch(place: &Place) -> Launch {
    with(&place.cosm, place)
}

/// Another build of it.
pub fn before(place: &Place) -> Launch {
    with(place.before.as_ref().unwrap_or(&place.cosm), place)
}

fn with(program: &Path, place: &Place) -> Launch {
    let mut command = vec![program.to_string_lossy().into_owned()];
    let (tls, certificate) = match place.tier {
        Tier::Tls => ("tls:", format!("--tls-certificate /run/{CERTIFICATE}")),
        _ => ("", String::new()),
    };
    command.extend(words(&format!(
        "serve --workers 1 --listen {tls}127.0.0.1:{} {certificate} --origin http://127.0.0.1:{} --memory {}MiB \
         --cache /run/cache.cosm --cache-size {}MiB",
        place.port,
        place.origin,
        place.memory_mib(),
        place.disk_mib()
    )));
    Launch { files: place.certificate_file().into_iter().collect(), command, ..Launch::default() }
}
