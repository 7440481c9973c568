//! Tables of examples. An error names its line; what is read can be learned from.
#![no_main]

use learn::examples::table;
use learn::ripper::Learner;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match table::read(data, &[], |_| {}) {
        Ok(examples) if examples.is_empty() || examples.len() > 64 => {}
        Ok(examples) => {
            let rules = Learner { optimizations: 1, ..Learner::default() }.learn(&examples).expect("there are examples");
            let text = rules.to_string();
            assert_eq!(text.parse::<learn::rules::Rules>().expect("as it was written").to_string(), text);
        }
        Err(why) => assert!(why.starts_with("line ") && !why.contains('\n'), "{why}"),
    }
});
