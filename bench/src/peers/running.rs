//! A contender that was set up in a folder of its own and runs there.

use super::contender::{Contender, Launch, Place, Tier};
use super::field::{Field, os};
use crate::body::Object;
use crate::cgroup::Group;
use crate::load::Target;
use crate::process::Server;
use std::fs::{create_dir_all, read_to_string, remove_dir_all, remove_file, write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ENTER: &str = include_str!("enter.sh");
/// A store that has not been read by then is not worth waiting for.
const REBUILD: Duration = Duration::from_secs(600);
/// The user that Debian has for proxies; most of the peers will not run as root.
const PROXY_USER: u32 = 13;

/// What a scenario needs.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    pub tier: Tier,
    pub memory: u64,
    pub objects: u64,
    pub object_bytes: u64,
    /// Bytes of memory that the contender may use in all, page cache included.
    pub limit: Option<u64>,
}

/// Ended and its folder removed when dropped.
pub struct Running {
    pub contender: Contender,
    place: Place,
    launch: Launch,
    folder: PathBuf,
    server: Option<Server>,
    /// Last, since its processes must have ended before.
    pub group: Group,
}

impl Running {
    /// Sets up and starts; ready to be measured.
    pub fn start(field: &Field, contender: Contender, need: &Need) -> Result<Running, String> {
        let folder = field.folder.join(contender.name);
        let place = Place {
            cosm: field.cosm.clone(),
            before: field.before.clone(),
            port: free_port()?,
            origin: field.origin.address().port(),
            tier: need.tier,
            memory: need.memory,
            objects: need.objects,
            object_bytes: need.object_bytes,
            certificate: field.certificate.pem.clone(),
        };
        let launch = (contender.launch)(&place);
        let group = Group::make()?;
        if let Some(bytes) = need.limit {
            group.limit_memory(bytes)?;
        }
        prepare(&folder, &launch)?;
        if let Some(objects) = launch.objects {
            let memory = &field.scale.memory;
            write_objects(&folder.join(objects), &memory.sizes, memory.objects)?;
        }
        let mut running = Running { contender, place, launch, folder, server: None, group };
        if let Some(before) = &running.launch.before {
            let command = running.entered(field, before);
            let groups = running.group.folders();
            Server::run(field.proxy_core, &groups, "unshare".as_ref(), &os(&command))
                .map_err(|error| format!("{}: {error}", contender.name))?;
            // Its log speaks of a store that was empty.
            let _ = remove_file(running.folder.join("cache.log"));
        }
        running.begin(field)?;
        running.wait_rebuilt()?;
        Ok(running)
    }

    /// Starts it as it was left; it may still be reading what it has.
    pub fn begin(&mut self, field: &Field) -> Result<(), String> {
        let command = self.entered(field, &self.launch.command);
        let groups = self.group.folders();
        let address = self.address();
        let server = Server::start_at(field.proxy_core, &groups, "unshare".as_ref(), &os(&command), address);
        self.server = Some(server.map_err(|error| format!("{}: {error}", self.contender.name))?);
        Ok(())
    }

    /// At once, without a chance to save anything.
    pub fn kill(&mut self) {
        self.server = None;
        // What it says after the next start is told apart from what it said before.
        if let Some(rebuilt) = self.launch.rebuilt {
            let _ = remove_file(self.folder.join(rebuilt.log));
        }
    }

    pub fn is_rebuilding(&self) -> bool {
        self.launch.rebuilt.is_some_and(|rebuilt| {
            let log = read_to_string(self.folder.join(rebuilt.log)).unwrap_or_default();
            log.matches(rebuilt.line).count() < rebuilt.times
        })
    }

    /// Until it has read what it has on disk.
    pub fn wait_rebuilt(&self) -> Result<(), String> {
        let begun = Instant::now();
        while self.is_rebuilding() {
            if begun.elapsed() > REBUILD {
                return Err(format!("{}: still reads its store after {REBUILD:?}", self.contender.name));
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// What has no cache fetches nothing.
    pub fn answers_from_files(&self) -> bool {
        self.launch.objects.is_some()
    }

    pub fn server(&self) -> Result<&Server, String> {
        self.server.as_ref().ok_or_else(|| format!("{} does not run", self.contender.name))
    }

    pub fn target(&self) -> Target {
        Target { server: self.address(), origin: None, tagged: true, close: false }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.place.port))
    }

    /// The program in namespaces of its own, with which all that it starts ends.
    fn entered(&self, field: &Field, command: &[String]) -> Vec<String> {
        let mut words: Vec<String> =
            ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
                .into_iter()
                .map(str::to_owned)
                .collect();
        words.extend([ENTER.to_owned(), "enter".to_owned()]);
        words.extend([&field.packages.root, &self.folder].map(|path| path.to_string_lossy().into_owned()));
        words.extend_from_slice(command);
        words
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server = None;
        let _ = remove_dir_all(&self.folder);
    }
}

fn prepare(folder: &Path, launch: &Launch) -> Result<(), String> {
    let say = |e: std::io::Error| format!("{}: {e}", folder.display());
    create_dir_all(folder.join("etc")).map_err(say)?;
    for (name, text) in &launch.files {
        let path = folder.join(name);
        create_dir_all(path.parent().unwrap_or(folder)).map_err(say)?;
        write(&path, text).map_err(say)?;
    }
    let own = |path: &Path| std::os::unix::fs::chown(path, Some(PROXY_USER), Some(PROXY_USER)).map_err(say);
    own(folder)?;
    for name in &launch.folders {
        let path = folder.join(name);
        create_dir_all(&path).map_err(say)?;
        own(&path)?;
    }
    Ok(())
}

/// `s/<size>/<number>`, as the origin names them.
fn write_objects(folder: &Path, sizes: &[u64], count: u64) -> Result<(), String> {
    for &size in sizes {
        let shelf = folder.join("s").join(size.to_string());
        create_dir_all(&shelf).map_err(|e| format!("{}: {e}", shelf.display()))?;
        for number in 0..count {
            let path = shelf.join(number.to_string());
            write(&path, Object { size, number }.whole()).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}

/// One that was free a moment ago: most of the peers cannot take port 0 and tell.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| format!("a free port: {e}"))?;
    listener.local_addr().map(|address| address.port()).map_err(|e| e.to_string())
}
