//! A file of settings, in TOML or in lines. What is read has known names, each once, on rising lines; printed as a file it
//! reads back; the settings make a configuration, or lines that say where and what is wrong.
#![no_main]

use cosm::machine::Machine;
use cosm::settings::{Config, Given, Source, TABLE, file, show};
use libfuzzer_sys::fuzz_target;

const MACHINE: Machine = Machine { memory: 1 << 30, cores: 4, descriptors: 20_000 };

fuzz_target!(|text: &str| {
    let is_said = |wrong: &[String]| {
        assert!(!wrong.is_empty());
        for why in wrong {
            assert!(
                why.lines().count() == 1 && (why.starts_with("f:") || why.starts_with("admin and ")),
                "{why}"
            );
        }
    };
    let given = match file::read(text, "f") {
        Ok(given) => given,
        Err(wrong) => return is_said(&wrong),
    };
    let line = |given: &Given| match &given.source {
        Source::File(name, line) if name == "f" => *line,
        other => panic!("{other:?}"),
    };
    assert!(given.is_sorted_by_key(line));
    for (i, one) in given.iter().enumerate() {
        assert!(TABLE.iter().any(|setting| setting.name == one.name));
        assert!(given[..i].iter().all(|other| other.name != one.name));
    }
    let printed = show::as_file(&given, &MACHINE, None);
    let again = file::read(&printed, "f").expect("what was printed");
    for one in &given {
        assert!(again.iter().any(|other| other.name == one.name && other.value == one.value), "{one:?}");
    }

    match Config::build(&given, &MACHINE) {
        Ok(config) => {
            assert!(config.proxy.workers > 0 && !config.proxy.listen.is_empty());
            for store in config.stores() {
                assert!(store.packet.is_power_of_two() && store.cmax <= 3);
                assert!(!store.patience.is_zero() && !store.flush_interval.is_zero());
            }
            let again = Config::build(&again, &MACHINE).expect("what was right");
            assert_eq!(format!("{again:?}"), format!("{config:?}"));
        }
        Err(wrong) => is_said(&wrong),
    }
});
