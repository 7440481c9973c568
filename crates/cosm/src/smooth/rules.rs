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
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > LARGEST {
        return Err(failed(format!("larger than {} MiB", LARGEST >> 20)));
    }
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
    let all = Encoding::for_schema(schema)?;
    let asked = model.attributes();
    if asked.is_empty() { Ok(all) } else { Encoding::named(asked) }
}
