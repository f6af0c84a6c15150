//! Values of several rounds, and their targets.

/// A value of each round; the median counts.
#[derive(Debug, Clone)]
pub struct Rounds(pub Vec<f64>);

impl Rounds {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(middle) = sorted.len().checked_sub(1) else { return f64::NAN };
        (sorted[middle / 2] + sorted[middle.div_ceil(2)]) / 2.0
    }

    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    pub fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn most(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// The median in a table; empty if it was not measured.
    pub fn figure(&self, decimals: usize) -> String {
        if self.is_empty() { String::new() } else { figure(self.median(), decimals) }
    }

    /// The median of ratios and their range; empty if they were not measured.
    pub fn ratio(&self) -> String {
        if self.is_empty() { String::new() } else { self.ratio_of(self.median()) }
    }

    /// A ratio, with the range of the rounds.
    pub fn ratio_of(&self, ratio: f64) -> String {
        format!("{ratio:.2} ({:.2} – {:.2})", self.least(), self.most())
    }

    /// The ratio round by round, so that a slow minute of the machine affects both.
    pub fn over(&self, other: &Rounds) -> Rounds {
        Rounds(self.0.iter().zip(&other.0).map(|(mine, theirs)| mine / theirs).collect())
    }
}

/// A target.
#[derive(Debug, Clone, Copy)]
pub struct Bar {
    pub title: &'static str,
    pub limit: f64,
    pub needed: Needed,
    /// Whether it is only desired, not required.
    pub goal: bool,
    pub decimals: usize,
}

/// How a value is compared with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    AtLeast,
    AtMost,
    Below,
}

impl Bar {
    /// At least this value.
    pub const fn at_least(title: &'static str, limit: f64) -> Self {
        Bar { title, limit, needed: Needed::AtLeast, goal: false, decimals: 2 }
    }

    /// Less than this.
    pub const fn below(title: &'static str, limit: f64) -> Self {
        Bar { title, limit, needed: Needed::Below, goal: false, decimals: 0 }
    }

    /// The row of a table; `None` if the value was not measured.
    pub fn row(&self, rounds: &Rounds) -> Option<String> {
        let figure = rounds.median();
        (!rounds.is_empty()).then(|| self.row_of(figure, rounds, &self.verdict(figure, rounds)))
    }

    /// Whether a value meets it, and by how much.
    pub fn verdict(&self, figure: f64, rounds: &Rounds) -> String {
        let meets = |figure: f64| match self.needed {
            Needed::AtLeast => figure >= self.limit,
            Needed::AtMost => figure <= self.limit,
            Needed::Below => figure < self.limit,
        };
        let by = if self.needed == Needed::AtLeast { figure / self.limit } else { self.limit / figure };
        let verdict = match (meets(figure), self.goal) {
            (true, _) => format!("met, {:.0} % to spare", (by - 1.0) * 100.0),
            (false, true) => format!("not reached, {:.0} % short", (1.0 - by) * 100.0),
            (false, false) => format!("**not met, {:.0} % short**", (1.0 - by) * 100.0),
        };
        let apart = meets(rounds.least()) != meets(rounds.most());
        if apart { format!("{verdict}; rounds are on both sides") } else { verdict }
    }

    /// The row of a table with a value, the range of its rounds and a verdict.
    pub fn row_of(&self, figure: f64, rounds: &Rounds, verdict: &str) -> String {
        let Bar { title, limit, needed, decimals, .. } = *self;
        let sign = match needed {
            Needed::AtLeast => "≥",
            Needed::AtMost => "≤",
            Needed::Below => "<",
        };
        let (least, most) = (rounds.least(), rounds.most());
        format!(
            "| {title} | {sign} {limit} | {figure:.decimals$} | {least:.decimals$} – {most:.decimals$} | {verdict} |"
        )
    }
}

/// A value in a table.
pub fn figure(number: f64, decimals: usize) -> String {
    if decimals == 0 { grouped(number.round() as u64) } else { format!("{number:.decimals$}") }
}

/// A number with thousands separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
