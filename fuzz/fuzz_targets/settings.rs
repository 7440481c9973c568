//! A configuration file. What is read has known names, each once, on rising lines; written out as lines it reads back;
//! the settings make a configuration or one line that says where and what is wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cosm/src/settings.rs"]
#[allow(dead_code)]
mod settings;
#[path = "../../crates/cosm/src/values.rs"]
#[allow(dead_code)]
mod values;

/// A machine that is always the same.
mod machine {
    pub fn memory() -> u64 {
        1 << 30
    }

    pub fn cores() -> usize {
        4
    }

    pub fn connections() -> u64 {
        6000
    }
}

use settings::{Config, TABLE, parse_file};

fuzz_target!(|text: &str| {
    let read = match parse_file(text) {
        Ok(read) => read,
        Err(why) => return assert!(why.starts_with("line ") && why.lines().count() == 1, "{why}"),
    };
    assert!(read.is_sorted_by(|a, b| a.2 < b.2));
    for (i, (name, value, _)) in read.iter().enumerate() {
        assert!(TABLE.iter().any(|setting| setting.name == *name));
        assert!(read[..i].iter().all(|(other, ..)| other != name));
        assert!(value.trim() == value && !value.contains(['#', '\n']));
    }
    let written: String = read.iter().map(|(name, value, _)| format!("{name}\t{value} # said\n")).collect();
    let again = parse_file(&written).expect("what was read");
    assert!(again.iter().zip(1..).all(|(a, number)| a.2 == number));
    assert!(again.iter().map(|a| (a.0, &a.1)).eq(read.iter().map(|r| (r.0, &r.1))));

    let given =
        |name: &str| read.iter().find(|r| r.0 == name).map(|r| (format!("line {}", r.2), r.1.clone()));
    match Config::build(given) {
        Ok(config) => {
            assert!(config.proxy.workers > 0 && !config.proxy.listen.is_empty());
            if let Some(store) = config.store {
                assert!(store.packet.is_power_of_two() && store.cmax > 0 && store.amax > 0);
            }
        }
        Err(why) => assert!(why.starts_with("line ") && why.lines().count() == 1, "{why}"),
    }
});
