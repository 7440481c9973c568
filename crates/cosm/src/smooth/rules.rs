//! Rules of a file, and what they ask of candidates.

use crate::Failure;
use learn::candidate::Encoding;
use learn::judge::Judge;
use learn::rules::Model;
use std::io::Read;

/// Bytes of a file of rules.
const LARGEST: u64 = 64 << 20;

/// An error is one line: file, line and what is wrong.
pub fn load(path: &str) -> Result<Model, Failure> {
    let failed = |why: String| Failure::Failed(format!("{path}: {why}"));
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(failed(format!("larger than {} MiB", LARGEST >> 20)));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        failed(format!("line {line}: not in UTF-8, as rules are"))
    })?;
    text.parse().map_err(|mistake: learn::rules::Mistake| failed(mistake.to_string()))
}

/// The attributes that the rules ask for. An error names one that candidates do not have.
pub fn encoding(model: &Model) -> Result<Encoding, String> {
    let schema = match model {
        Model::Rules(rules) => rules.schema(),
        Model::Ensemble(ensemble) => ensemble.members()[0].1.schema(),
    };
    if !model.classes().iter().any(|class| class == learn::candidate::PREFETCHABLE) {
        return Err(format!(
            "no class is named `{}`: such rules choose nothing",
            learn::candidate::PREFETCHABLE
        ));
    }
    Encoding::for_schema(schema)?;
    let mut asked = model.attributes();
    if asked.is_empty() {
        // Rules without conditions ask for nothing; a row has something.
        asked.insert("size");
    }
    Encoding::named(asked)
}
