//! Rules and ensembles of them as text. What is read is the same when it is written and read again; cut anywhere, what was written is an error.
#![no_main]

use learn::rules::Model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let model = match text.parse::<Model>() {
        Ok(model) => model,
        Err(mistake) => {
            assert!((1..=text.split('\n').count()).contains(&mistake.line), "{mistake}");
            assert!(!mistake.what.contains('\n'), "{mistake}");
            return;
        }
    };
    let written = model.to_string();
    assert_eq!(written.parse::<Model>().expect("as it was written"), model);
    // All cuts of a long text would take too long.
    let step = written.len() / 64 + 1;
    for end in (0..written.trim_end().len()).step_by(step).filter(|end| written.is_char_boundary(*end)) {
        assert!(written[..end].parse::<Model>().is_err(), "{}", &written[..end]);
    }
});
