//! The list grammar. Members lie in the line one after the other, trimmed, with only commas and space between them;
//! joined by commas they are the same members again; without quotes the list is what splitting at commas gives.
#![no_main]

use cache::fuzzing::{members, quoted_end};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let all: Vec<&[u8]> = members(line).collect();
    let mut rest = line;
    for member in &all {
        assert!(!member.is_empty() && member.trim_ascii() == *member);
        let at = member.as_ptr().addr() - rest.as_ptr().addr();
        assert!(separates(&rest[..at]) && rest[at..].starts_with(member));
        rest = &rest[at + member.len()..];
    }
    assert!(separates(rest));

    let joined = all.join(&b","[..]);
    assert_eq!(members(&joined).collect::<Vec<_>>(), all);
    if !line.contains(&b'"') {
        let parts = line.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|part| !part.is_empty());
        assert!(all.iter().copied().eq(parts));
    }

    let quoted = [b"\"", line].concat();
    if let Some(end) = quoted_end(&quoted) {
        assert!(end >= 2 && quoted[end - 1] == b'"');
        assert_eq!(quoted_end(&quoted[..end]), Some(end));
        assert_eq!(members(&quoted[..end]).collect::<Vec<_>>(), [&quoted[..end]]);
    }
});

fn separates(between: &[u8]) -> bool {
    between.iter().all(|b| *b == b',' || b.is_ascii_whitespace())
}
