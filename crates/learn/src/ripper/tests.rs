use super::*;
use crate::examples::{Kind, Schema, Value};
use crate::judge::Matrix;

/// The golf data of 7.2.
fn golf() -> Examples {
    let rows = "sunny 85 85 false No;sunny 80 90 true No;overcast 83 78 false Play;rain 70 96 false Play;rain 68 80 false Play;\
                rain 65 70 true No;overcast 64 65 true Play;sunny 72 95 false No;sunny 69 70 false Play;rain 75 80 false Play;\
                sunny 75 70 true Play;overcast 72 90 true Play;overcast 81 75 false Play;rain 71 80 true No";
    let schema = Schema::new([
        ("outlook", Kind::Nominal),
        ("temperature", Kind::Number),
        ("humidity", Kind::Number),
        ("windy", Kind::Nominal),
    ]);
    let mut examples = Examples::new(schema.unwrap(), ["Play", "No Play"]);
    for row in rows.split(';') {
        let [outlook, temperature, humidity, windy, class] = row.split(' ').collect::<Vec<_>>()[..] else {
            panic!()
        };
        let number = |said: &str| Value::Number(said.parse().unwrap());
        let values = [Value::Nominal(outlook), number(temperature), number(humidity), Value::Nominal(windy)];
        examples.push(&values, if class == "No" { "No Play" } else { class }, 1.0).unwrap();
    }
    examples
}

#[test]
fn golf_gives_the_rules_of_the_thesis() {
    let examples = golf();
    let rules = Learner::default().learn(&examples).unwrap();
    let lines: Vec<String> = [Some(0), Some(1), None].map(|rule| rules.line(rule)).into();
    assert_eq!(
        lines,
        [
            "'No Play' :- windy=true, outlook=rain (2/0).",
            "'No Play' :- humidity>=85, outlook=sunny (3/0).",
            "default Play (9/0).",
        ]
    );
    assert_eq!(Matrix::of(&rules, &examples).unwrap().right(), 1.0);
}
