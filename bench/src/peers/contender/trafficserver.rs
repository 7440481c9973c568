//! Traffic Server: a memory tier over one cyclic file.

use super::{Launch, Place, words};

pub fn launch(place: &Place) -> Launch {
    let (port, origin, disk) = (place.port, place.origin, place.disk_mib());
    let memory = place.memory;
    // How large its directory is: an entry for each object and as many to spare.
    let average = place.disk() / place.objects.max(1) / 2;
    let records = format!(
        "# One thread that serves; pinning it to a core is for whoever starts it.
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.exec_thread.affinity INT 0
CONFIG proxy.config.accept_threads INT 0
CONFIG proxy.config.task_threads INT 1
# Threads that read the disk.
CONFIG proxy.config.cache.threads_per_disk INT 8
CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.net.listen_backlog INT 4096
CONFIG proxy.config.net.connections_throttle INT 60000
CONFIG proxy.config.net.max_connections_in INT 19000
CONFIG proxy.config.admin.user_id STRING proxy
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.log.logfile_dir STRING /run/log
CONFIG proxy.config.http.keep_alive_no_activity_timeout_in INT 300
CONFIG proxy.config.http.keep_alive_no_activity_timeout_out INT 300
CONFIG proxy.config.http.transaction_no_activity_timeout_in INT 300
CONFIG proxy.config.http.transaction_no_activity_timeout_out INT 300
CONFIG proxy.config.cache.ram_cache.size INT {memory}
CONFIG proxy.config.cache.min_average_object_size INT {average}
# Bytes that may wait to be written before it gives up storing.
CONFIG proxy.config.cache.agg_write_backlog INT 33554432
"
    );
    Launch {
        files: vec![
            ("etc/trafficserver/records.config", records),
            ("etc/trafficserver/remap.config", format!("map / http://127.0.0.1:{origin}/\n")),
            ("etc/trafficserver/storage.config", format!("/run/cache {disk}M\n")),
        ],
        folders: vec!["cache", "log", "trafficserver"],
        command: words("/usr/bin/traffic_server"),
        ..Launch::default()
    }
}
