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
    /// Whether more is better.
    pub least: bool,
    /// Whether it is only desired, not required.
    pub goal: bool,
    pub decimals: usize,
}

impl Bar {
    /// At least this value.
    pub const fn at_least(title: &'static str, limit: f64) -> Self {
        Bar { title, limit, least: true, goal: false, decimals: 2 }
    }

    /// Less than this.
    pub const fn below(title: &'static str, limit: f64) -> Self {
        Bar { title, limit, least: false, goal: false, decimals: 0 }
    }

    /// The row of a table; `None` if the value was not measured.
    pub fn row(&self, rounds: &Rounds) -> Option<String> {
        let Bar { title, limit, least, goal, decimals } = *self;
        if rounds.is_empty() {
            return None;
        }
        let meets = |figure: f64| if least { figure >= limit } else { figure < limit };
        let figure = rounds.median();
        let by = if least { figure / limit } else { limit / figure };
        let verdict = match (meets(figure), goal) {
            (true, _) => format!("met, {:.0} % to spare", (by - 1.0) * 100.0),
            (false, true) => format!("not reached, {:.0} % short", (1.0 - by) * 100.0),
            (false, false) => format!("**not met, {:.0} % short**", (1.0 - by) * 100.0),
        };
        let apart = meets(rounds.least()) != meets(rounds.most());
        let verdict = if apart { format!("{verdict}; rounds are on both sides") } else { verdict };
        let sign = if least { "≥" } else { "<" };
        Some(format!(
            "| {title} | {sign} {limit} | {figure:.decimals$} | {:.decimals$} – {:.decimals$} | {verdict} |",
            rounds.least(),
            rounds.most(),
        ))
    }
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
