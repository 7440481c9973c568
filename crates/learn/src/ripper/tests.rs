use super::*;
use crate::examples::{Kind, Schema, Value};
use crate::judge::{Judge, Matrix};

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

/// Ten attributes that are true or false, of which the class follows ab + bcd + defg, an artificial concept of Cohen's; noise of 5 %.
fn concept(rows: usize, seed: u64) -> Examples {
    let schema = Schema::new("abcdefghij".chars().map(|name| (name, Kind::Nominal))).unwrap();
    let mut examples = Examples::new(schema, ["yes", "no"]);
    let mut random = Random::of(seed);
    for _ in 0..rows {
        let bits: Vec<bool> = (0..10).map(|_| random.below(2) == 1).collect();
        let [a, b, c, d, e, f, g, ..] = bits[..] else { panic!() };
        let yes = (a && b || b && c && d || d && e && f && g) != (random.below(20) == 0);
        let values: Vec<Value> =
            bits.iter().map(|bit| Value::Nominal(if *bit { "1" } else { "0" })).collect();
        examples.push(&values, if yes { "yes" } else { "no" }, 1.0).unwrap();
    }
    examples
}

/// A number, a nominal value and a set, with values missing; the class follows all three, with noise.
fn mixed(rows: usize, seed: u64) -> Examples {
    let schema =
        Schema::new([("size", Kind::Number), ("type", Kind::Nominal), ("words", Kind::Set)]).unwrap();
    let mut examples = Examples::new(schema, ["yes", "no"]);
    let mut random = Random::of(seed);
    for _ in 0..rows {
        let (size, kind) = (random.exponential(1000.0), random.below(4));
        let words: Vec<String> = (0..random.below(4)).map(|_| format!("w{}", random.below(9))).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let yes = size <= 300.0 && kind == 1 || words.contains(&"w3") && size >= 1500.0;
        let kind = ["a", "b", "c", "d"][kind as usize];
        let mut values = [Value::Number(size), Value::Nominal(kind), Value::Set(&words)];
        if random.below(20) == 0 {
            values[random.below(3) as usize] = Value::Missing;
        }
        let class = if yes != (random.below(50) == 0) { "yes" } else { "no" };
        examples.push(&values, class, 0.5 + size).unwrap();
    }
    examples
}

fn right(rules: &Rules, examples: &Examples) -> f64 {
    Matrix::of(rules, examples).unwrap().right()
}

#[test]
fn a_concept_is_found_in_noise() {
    let rules = Learner::default().learn(&concept(2000, 1)).unwrap();
    let test = right(&rules, &concept(2000, 2));
    assert!(test > 0.93, "{test}\n{rules}");
    assert!((5..30).contains(&rules.conditions()), "{rules}");
}

#[test]
fn numbers_names_and_sets_make_rules() {
    let rules = Learner::default().learn(&mixed(3000, 1)).unwrap();
    let test = right(&rules, &mixed(3000, 2));
    assert!(test > 0.95, "{test}\n{rules}");
    let text = rules.to_string();
    assert!(["size<=", "type=b", "words~w3"].iter().all(|condition| text.contains(condition)), "{text}");
    assert_eq!(text.parse::<Rules>().unwrap().to_string(), text);
}

#[test]
fn equal_seeds_give_equal_rules_with_any_number_of_threads() {
    let examples = mixed(40_000, 3);
    let learn = |seed, threads| {
        Learner { seed, threads, optimizations: 1, ..Learner::default() }
            .learn(&examples)
            .unwrap()
            .to_string()
    };
    let one = learn(1, 1);
    assert_eq!(one, learn(1, 1));
    assert_eq!(one, learn(1, 3));
    assert_ne!(one, learn(2, 1));
}

#[test]
fn only_the_ratio_of_weights_counts() {
    let examples = concept(800, 4);
    let learner = Learner::default();
    let doubled: Vec<f64> = examples.weights().iter().map(|weight| weight * 1024.0).collect();
    let conditions =
        |rules: Rules| rules.rules().iter().map(|rule| rule.conditions.clone()).collect::<Vec<_>>();
    let heavy = learner.learn_weighted(&examples, &doubled, &mut |_| {}).unwrap();
    assert_eq!(conditions(learner.learn(&examples).unwrap()), conditions(heavy));
}

#[test]
fn a_loss_ratio_trades_accuracy_for_coverage() {
    let learn = |loss_ratio| {
        let examples = mixed(3000, 5);
        let rules = Learner { loss_ratio, positive: Some("yes".into()), ..Learner::default() }
            .learn(&examples)
            .unwrap();
        let matrix = Matrix::of(&rules, &mixed(3000, 6)).unwrap();
        (matrix.accuracy("yes").unwrap(), matrix.coverage("yes").unwrap())
    };
    let (careful, even, greedy) = (learn(20.0), learn(1.0), learn(0.05));
    assert!(careful.0 >= even.0 && even.0 > greedy.0, "{careful:?} {even:?} {greedy:?}");
    assert!(careful.1 <= even.1 && even.1 <= greedy.1, "{careful:?} {even:?} {greedy:?}");
}

#[test]
fn several_classes_have_rules_from_the_lightest() {
    let schema = Schema::new([("x", Kind::Number), ("y", Kind::Number)]).unwrap();
    let mut examples = Examples::new(schema, []);
    let mut random = Random::of(8);
    for _ in 0..1500 {
        let (x, y) = (random.unit(), random.unit());
        let class = if x < 0.2 {
            "left"
        } else if y < 0.3 {
            "low"
        } else {
            "rest"
        };
        examples.push(&[Value::Number(x), Value::Number(y)], class, 1.0).unwrap();
    }
    let rules = Learner::default().learn(&examples).unwrap();
    assert!(right(&rules, &examples) > 0.98, "{rules}");
    let order: Vec<&str> = rules.rules().iter().map(|rule| rules.classes()[rule.class].as_str()).collect();
    assert!(order.is_sorted() && rules.classes()[rules.default().class] == "rest", "{rules}");
}

#[test]
fn examples_of_one_class_leave_a_default() {
    let learn = |class: &str, rows: usize| {
        let mut examples = Examples::new(Schema::new([("x", Kind::Number)]).unwrap(), ["yes", "no"]);
        (0..rows).for_each(|row| examples.push(&[Value::Number(row as f64)], class, 1.0).unwrap());
        let rules = Learner { positive: Some("yes".into()), ..Learner::default() }.learn(&examples);
        rules.map(|rules| (rules.rules().len(), rules.line(None)))
    };
    assert_eq!(learn("yes", 50).unwrap(), (0, "default yes (50/0).".into()));
    assert_eq!(learn("no", 50).unwrap(), (0, "default no (50/0).".into()));
    assert_eq!(learn("no", 1).unwrap(), (0, "default no (1/0).".into()));
    assert!(learn("no", 0).unwrap_err().contains("no examples"));
}

#[test]
fn columns_that_tell_nothing_make_no_conditions() {
    let schema = Schema::new([
        ("same", Kind::Number),
        ("nan", Kind::Number),
        ("gone", Kind::Nominal),
        ("empty", Kind::Set),
    ]);
    let mut examples = Examples::new(schema.unwrap(), []);
    for row in 0..100 {
        let values = [Value::Number(1.0), Value::Number(f64::NAN), Value::Missing, Value::Set(&[])];
        examples.push(&values, if row % 3 == 0 { "a" } else { "b" }, 1.0).unwrap();
    }
    let rules = Learner::default().learn(&examples).unwrap();
    assert_eq!((rules.conditions(), rules.line(None)), (0, "default b (66/34).".into()));
    assert!(Learner::default().learn(&Examples::new(Schema::default(), [])).is_err());
}

#[test]
fn settings_out_of_bounds_are_refused() {
    let examples = golf();
    let refused = |learner: Learner| learner.learn(&examples).unwrap_err();
    assert!(refused(Learner { folds: 1, ..Learner::default() }).contains("folds"));
    assert!(refused(Learner { positive: Some("x".into()), ..Learner::default() }).contains("`x`"));
    assert!(refused(Learner { loss_ratio: 2.0, ..Learner::default() }).contains("positive"));
    for loss_ratio in [0.0, -1.0, 1e300, f64::NAN] {
        let why = refused(Learner { loss_ratio, ..Learner::default() });
        assert!(why.contains("loss ratio") && why.len() < 80, "{why}");
    }
}

#[test]
fn very_many_values_of_a_name_are_learned_from() {
    let mut examples =
        Examples::new(Schema::new([("server", Kind::Nominal), ("x", Kind::Number)]).unwrap(), []);
    for row in 0..1_000_000u32 {
        let server = format!("www{row}");
        let x = f64::from(row % 1000);
        examples
            .push(&[Value::Nominal(&server), Value::Number(x)], if x < 3.0 { "yes" } else { "no" }, 1.0)
            .unwrap();
    }
    let rules = Learner { optimizations: 0, ..Learner::default() }.learn(&examples).unwrap();
    assert_eq!(rules.line(Some(0)), "yes :- x<=2 (3000/0).");
}

#[test]
fn boosting_is_right_more_often() {
    let learner = Learner { optimizations: 0, ..Learner::default() };
    let (train, test) = (concept(600, 9), concept(2000, 10));
    let ensemble = crate::boost::boost(&learner, 10, &train, &mut |_, _| {}).unwrap();
    let alone = right(&learner.learn(&train).unwrap(), &test);
    let together = Matrix::of(&ensemble, &test).unwrap().right();
    assert!(ensemble.members().len() == 10 && together > alone, "{alone} {together}");
}

/// Also where a class has most of the weight, and a rule of it needs no condition.
#[test]
fn what_is_learned_is_read_again() {
    for seed in 0..20 {
        let mut random = Random::of(seed);
        let schema = Schema::new([("a", Kind::Number), ("b", Kind::Nominal)]).unwrap();
        let mut examples = Examples::new(schema, ["yes", "no"]);
        for _ in 0..60 {
            let word = ["x", "y", "z"][random.below(3) as usize];
            let values = [Value::Number(random.below(5) as f64), Value::Nominal(word)];
            let class = if random.unit() < 0.8 { "yes" } else { "no" };
            examples.push(&values, class, 1.0).unwrap();
        }
        let learner = Learner { positive: Some("yes".into()), seed, ..Learner::default() };
        for text in [
            learner.learn(&examples).unwrap().to_string(),
            crate::boost::boost(&learner, 5, &examples, &mut |_, _| {}).unwrap().to_string(),
        ] {
            let again: crate::rules::Model = text.parse().unwrap();
            assert_eq!(again.to_string(), text);
        }
    }
}

#[test]
fn too_many_classes_and_weights_beyond_bounds_are_refused() {
    let schema = Schema::new([("a", Kind::Number)]).unwrap();
    let mut examples = Examples::new(schema, []);
    for nth in 0..=crate::rules::CLASSES_MAX {
        examples.push(&[Value::Number(nth as f64)], &format!("c{nth}"), 1.0).unwrap();
    }
    assert!(Learner::default().learn(&examples).unwrap_err().contains("more than 1000 classes"));
    assert!(examples.push(&[Value::Missing], "c0", 1e308).unwrap_err().contains("1e18 at most"));
    assert!(examples.push(&[Value::Missing], "c0", f64::NAN).is_err());
}
