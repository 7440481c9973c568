//! SIGHUP: the settings are read again. Those that can change while the proxy runs do, from each worker's next request on;
//! a line names the others, which wait for the next start.

use crate::machine::Machine;
use crate::memory;
use crate::settings::{Config, Effect, Given, TABLE};

/// What is in force, and where more is read from.
pub struct Reload {
    pub given: Vec<Given>,
    pub machine: Machine,
    /// Gives what the command line and the configuration file say now; `None`: there is no file.
    pub read: Box<dyn Fn() -> Option<Result<Vec<Given>, String>> + Send>,
    /// Gives what runs its settings.
    pub adopt: Box<dyn Fn(Config) + Send>,
}

impl Reload {
    /// Reads the settings again, and tells what came of it, a line each.
    ///
    /// # Errors
    /// They are wrong, and nothing changed; one line.
    pub fn again(&mut self) -> Result<Vec<String>, String> {
        let Some(read) = (self.read)() else {
            return Err("there is no file to read settings from (--config)".into());
        };
        let stay = |wrong| format!("settings stay as they are: {wrong}");
        let new = read.and_then(|new| self.config(&new).map(|_| new)).map_err(stay)?;
        let (mut taken, mut waiting, mut mixed) = (Vec::new(), Vec::new(), Vec::new());
        for setting in TABLE {
            let (before, after) = (setting.given(&self.given), setting.given(&new));
            let text = |given: Option<&Given>| given.map_or(setting.default, |given| &given.value).to_owned();
            let changed = text(before) != text(after);
            let (changes, stays) = match setting.effect {
                Effect::Reload => (&mut taken, after),
                Effect::Start => (&mut waiting, before),
            };
            changes.extend(changed.then_some(setting.name));
            mixed.extend(stays.cloned());
        }
        // What is in force and what is new were both right; together they may not be.
        let config = self.config(&mixed).map_err(stay)?;
        self.given = mixed;
        (self.adopt)(config);
        let mut lines = vec![match taken.is_empty() {
            true => "settings were read again: none that can change while running is another; files that they name were read anew".to_owned(),
            false => format!("settings were read again; changed: {}", taken.join(", ")),
        }];
        if !waiting.is_empty() {
            lines.push(format!("these change at the next start: {}", waiting.join(", ")));
        }
        Ok(lines)
    }

    /// What a start with these settings would run with.
    fn config(&self, given: &[Given]) -> Result<Config, String> {
        let mut config = Config::build(given, &self.machine).map_err(|wrong| wrong.join("; "))?;
        memory::divide(&mut config, &self.machine)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Source;
    use std::sync::mpsc::{Receiver, channel};
    use std::sync::{Arc, Mutex};

    type File = Arc<Mutex<Option<Result<Vec<Given>, String>>>>;

    fn given(name: &'static str, value: &str) -> Given {
        Given { name, value: value.into(), source: Source::File("f".into(), 1) }
    }

    fn reload(given: Vec<Given>) -> (Reload, File, Receiver<Config>) {
        let (file, (adopt, adopted)) = (File::default(), channel());
        let (machine, from) = (Machine { memory: 4 << 30, cores: 3, descriptors: 1 << 20 }, file.clone());
        let read = Box::new(move || from.lock().unwrap().clone());
        let adopt = Box::new(move |config| adopt.send(config).unwrap());
        (Reload { given, machine, read, adopt }, file, adopted)
    }

    #[test]
    fn what_can_change_does_and_the_rest_waits() {
        let (mut reload, file, adopted) =
            reload(vec![given("allow", "10.0.0.0/8"), given("finish-max", "2MiB"), given("workers", "1")]);
        let new = [given("allow", "all"), given("workers", "2"), given("query-max", "1KiB")];
        *file.lock().unwrap() = Some(Ok(new.into()));
        let lines = reload.again().unwrap();
        assert_eq!(
            lines,
            [
                "settings were read again; changed: query-max, finish-max, allow",
                "these change at the next start: workers"
            ]
        );
        let settings = adopted.try_recv().unwrap().proxy;
        assert_eq!((settings.workers, settings.bounds.query_bytes), (1, 1 << 10));
        assert_eq!(settings.bounds.finish_bytes, 1 << 20, "what is given no more has its default");
        assert_eq!(settings.clients, proxy::Network::all());
        // What waits is named again, and nothing else.
        let lines = reload.again().unwrap();
        assert!(lines[0].contains("none that can change") && lines[1].ends_with(": workers"), "{lines:?}");
    }

    #[test]
    fn what_is_wrong_changes_nothing() {
        let (mut reload, file, adopted) = reload(vec![given("allow", "10.0.0.0/8")]);
        for wrong in [Ok(vec![given("allow", "all"), given("cmax", "4")]), Err("cannot read f".to_owned())] {
            *file.lock().unwrap() = Some(wrong);
            let wrong = reload.again().unwrap_err();
            assert!(wrong.starts_with("settings stay as they are: "), "{wrong}");
        }
        *file.lock().unwrap() = None;
        assert!(reload.again().unwrap_err().contains("--config"));
        assert!(adopted.try_recv().is_err());
        assert_eq!(reload.given, [given("allow", "10.0.0.0/8")]);
    }
}
