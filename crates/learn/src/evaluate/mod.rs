//! Next-day evaluation (7.4 to 7.9): strategies that learned from one day choose what to fetch in the night before another, and the peak
//! that follows tells how well.

mod days;
mod outcome;

pub use days::{Amount, Fact, LeftOut, Levels, Material, Survey, Told, Web, night_levels, survey, walk};
pub use outcome::{Day as DayOutcome, Matrix, Measured, Totals, lower, raised};

use crate::candidate::{Encoding, PREFETCHABLE};
use crate::day::{Calendar, Day, NO_DATES, Peak, Weekdays};
use crate::examples::Examples;
use crate::judge::Judge;
use crate::rules::{Rules, Test};
use serde::Serialize;

pub struct Settings {
    pub peak: Peak,
    pub calendar: Calendar,
    /// Days of the trace, from its begin, in which the cache warms up (6.2.2: two).
    pub warm_up: usize,
    /// Bytes of a cache that forgets what was asked for least lately; none for an infinite one.
    pub cache: Option<u64>,
    /// Whether versions are told by modification dates, else by sizes; none: by dates where the trace has any.
    pub by_date: Option<bool>,
    /// So many servers with most prefetchable service (7.4: 320); none for all.
    pub servers: Option<usize>,
    pub offers: Offers,
    pub positives: Positives,
    pub encoding: Encoding,
    pub budget: Budget,
    /// Objects that the history remembers.
    pub history: usize,
    /// Days that are as those at the weekend.
    pub holidays: Vec<Day>,
    /// A day of work learns from the last day of work, and a free one from the last free one (7.7), instead of the day before.
    pub same_kind: bool,
    /// All learn once, from the first so many days together.
    pub once: Option<usize>,
}

impl Settings {
    /// As in 7.4 and 7.6, but that each weekday has a peak, as those of the experiments.
    pub fn new(encoding: Encoding) -> Settings {
        let mut peak = Peak::THESIS;
        peak.days = Weekdays::ALL;
        Settings {
            peak,
            calendar: Calendar::UTC,
            warm_up: 2,
            cache: None,
            by_date: None,
            servers: Some(320),
            offers: Offers::Listed,
            positives: Positives::Listed,
            encoding,
            budget: Budget::None,
            history: 4_000_000,
            holidays: Vec::new(),
            same_kind: false,
            once: None,
        }
    }

    /// A day at the weekend, or a holiday.
    pub fn is_free(&self, day: Day) -> bool {
        let weekday = self.calendar.weekday(day);
        weekday.is_some_and(|weekday| weekday >= 5 || self.holidays.contains(&day))
    }
}

/// Where candidates come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offers {
    /// What servers offered.
    Listed,
    /// What was asked for on a day before.
    Seen,
}

/// Which prefetchable objects are examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Positives {
    /// Those among the candidates: what can be fetched.
    Listed,
    /// All that the log has, as in 7.4, as if they had been listed.
    Log,
}

/// What may be fetched in a night.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// All that is chosen (7.7).
    None,
    /// B_extra at the target level of the cycle before (6.2, 6.3).
    Room,
    Bytes(u64),
}

/// How something is chosen.
pub struct Strategy<'l> {
    pub name: String,
    pub how: How<'l>,
}

pub enum How<'l> {
    Nothing,
    /// All that was asked for on a day before.
    SeenBefore,
    /// What will be asked for.
    Oracle,
    Learned {
        when: When,
        learn: Learn<'l>,
    },
}

/// Learns from examples.
pub type Learn<'l> = Box<dyn Fn(&Examples) -> Result<Learned, String> + 'l>;

pub struct Learned {
    pub judge: Box<dyn Judge>,
    /// What was learned, as text that can be loaded again, where it is such.
    pub text: Option<String>,
    pub composition: Option<Composition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// From each day, for the next (the first experiment of 7.6).
    Daily,
    /// From the first day, for all others (the second).
    Once,
}

/// What rules are about (Figure 7.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Composition {
    pub rules: usize,
    pub conditions: usize,
    /// That name a server; that name the domain `com`; that name a media type of pictures, or any.
    pub of_a_server: usize,
    pub of_com: usize,
    pub of_images: usize,
    pub of_any_type: usize,
}

impl Composition {
    pub fn of(rules: &Rules) -> Composition {
        let named = |attribute: &str, fits: &dyn Fn(&str) -> bool| {
            let place = rules.schema().place(attribute);
            let holds = |test: &Test| matches!(test, Test::Is(word) if fits(word));
            let about = rules.rules().iter().filter(|rule| {
                rule.conditions.iter().any(|one| Some(one.attribute) == place && holds(&one.test))
            });
            about.count()
        };
        Composition {
            rules: rules.rules().len(),
            conditions: rules.conditions(),
            of_a_server: named("server", &|_| true),
            of_com: named("domain", &|word| word == "com"),
            of_images: named("type", &|word| word.starts_with("image/")),
            of_any_type: rules.rules().len() - named("type", &|_| true),
        }
    }
}

/// What an evaluation found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub requests: u64,
    pub by_date: bool,
    /// That served something prefetchable, and their share of it that those chosen served.
    pub servers: usize,
    pub chosen_servers: usize,
    pub chosen_share: f64,
    /// Of the days that were tested.
    pub days: Vec<Given>,
    pub strategies: Vec<Tested>,
    /// What limits the figures.
    pub notes: Vec<String>,
}

/// A day as all strategies find it.
#[derive(Debug, Serialize)]
pub struct Given {
    pub day: Day,
    /// 0 is Monday.
    pub weekday: Option<usize>,
    pub is_free: bool,
    /// When the night begins, seconds since 1970.
    pub night: u64,
    pub candidates: usize,
    pub candidate_bytes: u64,
    pub positives: Amount,
    /// Prefetchable, of the chosen servers, but no candidate.
    pub unlisted: Amount,
    /// Of all servers.
    pub prefetchable: Amount,
    pub left_out: LeftOut,
    pub budget: Option<u64>,
    /// Miss bytes a quarter of an hour, from the begin of the night on: of the chosen servers, and of all.
    pub chosen: Vec<u64>,
    pub all: Vec<u64>,
}

#[derive(Debug, Serialize)]
pub struct Tested {
    pub name: String,
    pub days: Vec<DayOutcome>,
    pub totals: Totals,
}

/// What goes on, for whoever waits.
pub enum Step<'s> {
    /// Requests of the first pass (false) or the second (true).
    Requests(bool, u64),
    /// Candidates of a day are ready.
    Day(Day, usize),
    Learning(&'s str, usize),
}

/// Evaluates strategies. `open` gives the same trace each time; it is read twice. `learned` gets what was learned: by which strategy, from which
/// day, and the text. An error is one line.
pub fn evaluate<'w>(
    open: &mut dyn FnMut() -> Result<Box<dyn Web + 'w>, String>,
    settings: &Settings,
    strategies: &[Strategy],
    learned: &mut dyn FnMut(&str, Day, &str) -> Result<(), String>,
    progress: &mut dyn FnMut(Step),
) -> Result<Report, String> {
    let survey = survey(&mut *open()?, settings, &mut |requests| progress(Step::Requests(false, requests)))?;
    let trained_on = settings.once.unwrap_or(1);
    if survey.days <= (settings.warm_up.saturating_add(trained_on)) as u64 {
        return Err(format!(
            "the trace has {} days with a peak: {} to warm up, {trained_on} to learn from and one to test on are needed; \
             see --warm-up and --peak",
            survey.days, settings.warm_up
        ));
    }
    let mut run = Run::new(settings, strategies);
    let progress = std::cell::RefCell::new(progress);
    walk(
        &mut *open()?,
        settings,
        &survey,
        &mut |material| run.day(material, learned, &mut |step| progress.borrow_mut()(step)),
        &mut |requests| progress.borrow_mut()(Step::Requests(true, requests)),
    )?;
    run.report(&survey)
}

/// Strategies, with what they learned so far.
struct Run<'r, 'l> {
    settings: &'r Settings,
    strategies: &'r [Strategy<'l>],
    /// By strategy: what it learned from the last day, and from the last free one and the last one of work.
    judges: Vec<Judges>,
    gathered: Option<Examples>,
    days_seen: usize,
    given: Vec<Given>,
    outcomes: Vec<Vec<DayOutcome>>,
    notes: Vec<String>,
}

#[derive(Default)]
struct Judges {
    last: Option<usize>,
    last_of_kind: [Option<usize>; 2],
    all: Vec<Option<(Day, Learned)>>,
}

impl<'r, 'l> Run<'r, 'l> {
    fn new(settings: &'r Settings, strategies: &'r [Strategy<'l>]) -> Run<'r, 'l> {
        Run {
            settings,
            strategies,
            judges: strategies.iter().map(|_| Judges::default()).collect(),
            gathered: None,
            days_seen: 0,
            given: Vec::new(),
            outcomes: strategies.iter().map(|_| Vec::new()).collect(),
            notes: Vec::new(),
        }
    }

    fn day(
        &mut self,
        material: Material,
        learned: &mut dyn FnMut(&str, Day, &str) -> Result<(), String>,
        progress: &mut dyn FnMut(Step),
    ) -> Result<(), String> {
        progress(Step::Day(material.day, material.facts.len()));
        let trained_on = self.settings.once.unwrap_or(1);
        if self.days_seen >= trained_on {
            self.test(&material)?;
        }
        self.days_seen += 1;
        self.learn(material, learned, progress)
    }

    fn test(&mut self, material: &Material) -> Result<(), String> {
        let budget = self.settings.budget.of(material);
        let nights = night_levels(self.settings);
        for (nth, strategy) in self.strategies.iter().enumerate() {
            let facts = &material.facts;
            let all_of = |is: &dyn Fn(&Fact) -> bool| {
                facts.iter().map(|fact| is(fact).then_some(1.0)).collect::<Vec<Option<f64>>>()
            };
            let (chosen, day, composition) = match &strategy.how {
                How::Nothing => (vec![None; facts.len()], None, None),
                How::SeenBefore => (all_of(&|fact| fact.seen), None, None),
                How::Oracle => (all_of(&|fact| fact.missed.is_some()), None, None),
                How::Learned { .. } => {
                    let judges = &self.judges[nth];
                    let of_kind = judges.last_of_kind[usize::from(material.is_free)];
                    let place = if self.settings.same_kind { of_kind.or(judges.last) } else { judges.last };
                    let learned = place.and_then(|place| judges.all[place].as_ref());
                    let Some((day, learned)) = learned else { continue };
                    let class = learned.judge.classes().iter().position(|class| class == PREFETCHABLE);
                    let verdicts = learned.judge.judge(&material.examples)?;
                    let chosen = verdicts
                        .iter()
                        .map(|verdict| (Some(verdict.class) == class).then_some(verdict.confidence))
                        .collect();
                    (chosen, Some(*day), learned.composition)
                }
            };
            let measured = Measured { nights, budget, learned_from: day, composition };
            self.outcomes[nth].push(DayOutcome::of(material, &chosen, measured));
        }
        self.given.push(given(material, self.settings, budget));
        Ok(())
    }

    fn learn(
        &mut self,
        material: Material,
        learned: &mut dyn FnMut(&str, Day, &str) -> Result<(), String>,
        progress: &mut dyn FnMut(Step),
    ) -> Result<(), String> {
        let Material { day, is_free, mut examples, .. } = material;
        if let Some(days) = self.settings.once {
            if self.days_seen > days {
                return Ok(());
            }
            if let Some(mut gathered) = self.gathered.take() {
                gathered.append(&examples)?;
                examples = gathered;
            }
            if self.days_seen < days {
                self.gathered = Some(examples);
                return Ok(());
            }
        }
        let positives = examples.class().iter().filter(|class| **class == 0).count();
        let needed = self.strategies.iter().any(|one| matches!(one.how, How::Learned { .. }));
        if needed && (positives == 0 || positives == examples.len()) {
            let what = if positives == 0 { "nothing" } else { "everything" };
            self.notes.push(format!(
                "day {}: {what} of {} candidates was prefetchable, and what was learned from it chooses {what}",
                date(day),
                examples.len()
            ));
        }
        for (strategy, judges) in self.strategies.iter().zip(&mut self.judges) {
            let How::Learned { when, learn } = &strategy.how else { continue };
            if (*when == When::Once || self.settings.once.is_some()) && judges.last.is_some() {
                continue;
            }
            if examples.is_empty() {
                continue;
            }
            progress(Step::Learning(&strategy.name, examples.len()));
            let found = learn(&examples).map_err(|why| format!("{}: {why}", strategy.name))?;
            if let Some(text) = &found.text {
                learned(&strategy.name, day, text)?;
            }
            judges.add(day, is_free, found, self.settings.same_kind);
        }
        Ok(())
    }

    fn report(mut self, survey: &Survey) -> Result<Report, String> {
        if self.given.is_empty() {
            return Err("no day was left to test on".into());
        }
        let of = |servers: &[(u64, u64)]| servers.iter().map(|(_, bytes)| *bytes).sum::<u64>() as f64;
        let chosen = self.settings.servers.unwrap_or(usize::MAX).min(survey.service.len());
        let all = of(&survey.service);
        let positives: u64 = self.given.iter().map(|day| day.positives.objects).sum();
        let candidates: usize = self.given.iter().map(|day| day.candidates).sum();
        let mut notes = limits(self.settings, survey);
        let twice: u64 = self.given.iter().map(|day| day.left_out.twice).sum();
        if twice > 0 {
            notes.push(format!(
                "{twice} offers are of a URL that was offered already in the same night: the first counts"
            ));
        }
        if candidates == 0 {
            notes.push("there was no candidate on any day: nothing could be fetched".into());
        } else if positives == 0 {
            notes.push(
                "nothing that could be fetched was asked for on any day: accuracy is 0 of anything".into(),
            );
        }
        notes.append(&mut self.notes);
        let tested = self.strategies.iter().zip(self.outcomes).map(|(strategy, days)| Tested {
            name: strategy.name.clone(),
            totals: Totals::of(&days),
            days,
        });
        Ok(Report {
            requests: survey.requests,
            by_date: survey.by_date,
            servers: survey.service.len(),
            chosen_servers: chosen,
            chosen_share: if all > 0.0 { of(&survey.service[..chosen]) / all } else { 0.0 },
            strategies: tested.collect(),
            days: self.given,
            notes,
        })
    }
}

impl Judges {
    fn add(&mut self, day: Day, is_free: bool, learned: Learned, keep_kinds: bool) {
        let place = self.all.len();
        self.all.push(Some((day, learned)));
        let before = self.last.replace(place);
        let before_of_kind = self.last_of_kind[usize::from(is_free)].replace(place);
        // What no day can use any more is dropped.
        let old = if keep_kinds { before_of_kind } else { before };
        if let Some(old) = old {
            self.all[old] = None;
        }
    }
}

fn given(material: &Material, settings: &Settings, budget: u64) -> Given {
    let mut positives = Amount::default();
    for fact in material.facts.iter().filter(|fact| fact.missed.is_some()) {
        positives.add(fact.bytes);
    }
    Given {
        day: material.day,
        weekday: settings.calendar.weekday(material.day),
        is_free: material.is_free,
        night: material.night,
        candidates: material.facts.len(),
        candidate_bytes: material.facts.iter().map(|fact| fact.bytes).sum(),
        positives,
        unlisted: material.unlisted,
        prefetchable: material.prefetchable,
        left_out: material.left_out,
        budget: (budget < u64::MAX).then_some(budget),
        chosen: material.chosen.to_vec(),
        all: material.all.to_vec(),
    }
}

/// What a trace leaves out, and what was assumed instead.
fn limits(settings: &Settings, survey: &Survey) -> Vec<String> {
    let mut notes = Vec::new();
    if !settings.calendar.has_dates {
        notes.push(format!("{NO_DATES} There are no holidays, and all days are of one kind."));
    }
    if !survey.by_date {
        notes.push(
            "versions are told by sizes (unchanged within 5 % and 16 bytes): whether an object was there and unaltered since the night \
             began is not known, and assumed where no request of the same cycle says otherwise; ages are not known"
                .into(),
        );
    }
    if survey.dated > 0 && !survey.by_date && settings.by_date.is_none() {
        notes.push(format!(
            "{} of {} responses have a modification date, too few to tell versions by; --versions date does all the same",
            survey.dated, survey.requests
        ));
    }
    if settings.offers == Offers::Seen {
        notes.push(
            "there is no inventory: candidates are what was asked for on a day before; what was never asked for is not among the \
             negatives, and cannot be fetched"
                .into(),
        );
    }
    if settings.positives == Positives::Log {
        notes.push(
            "positives are all that the log has, as in 7.4, also those that are not listed: no plan could have fetched these".into(),
        );
    }
    if settings.positives == Positives::Log && settings.offers == Offers::Seen {
        notes.push(
            "negatives were asked for before and most positives were not: attributes of the past tell them apart without telling \
             anything about the day, and accuracy says nothing about what nobody asked for"
                .into(),
        );
    }
    if survey.ahead > 0 {
        notes.push(format!(
            "{} responses have a modification date later than their request: they count as altered",
            survey.ahead
        ));
    }
    if survey.out_of_order > 0 {
        notes.push(format!(
            "{} requests are over a quarter of an hour earlier than one before them: those of a day that was over count for no peak",
            survey.out_of_order
        ));
    }
    if survey.no_size > 0 {
        notes.push(format!("{} responses have no size, and count for nothing", survey.no_size));
    }
    notes
}

/// A day as people write it. Those of 1970 are of traces whose times count from their own beginning.
pub fn date(day: Day) -> String {
    if day < 365 {
        return format!("day {day}");
    }
    let since_1970 = jiff::Span::new().try_days(day);
    match since_1970.and_then(|days| jiff::civil::date(1970, 1, 1).checked_add(days)) {
        Ok(date) => date.to_string(),
        Err(_) => format!("day {day}"),
    }
}

#[cfg(test)]
mod tests;
