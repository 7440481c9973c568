//! Cosm itself, as it comes.

use super::{Launch, Place, words};

pub fn launch(place: &Place) -> Launch {
    let mut command = vec![place.cosm.to_string_lossy().into_owned()];
    command.extend(words(&format!(
        "serve --workers 1 --listen 127.0.0.1:{} --origin http://127.0.0.1:{} --memory {}MiB \
         --cache /run/cache.cosm --cache-size {}MiB",
        place.port,
        place.origin,
        place.memory_mib(),
        place.disk_mib()
    )));
    Launch { command, ..Launch::default() }
}
