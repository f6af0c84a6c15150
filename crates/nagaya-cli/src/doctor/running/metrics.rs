//! Reading the metrics of a server.

use super::trusted;

/// Whether metrics are those of a server of this program.
pub(super) fn is_ours(metrics: &str) -> bool {
    values(metrics, "nagaya_build_info").next().is_some()
}

/// The values of a metric, one for each combination of its labels.
pub(super) fn values(metrics: &str, name: &str) -> impl Iterator<Item = f64> {
    samples(metrics, name).map(|(_, value)| value)
}

/// Whose tokens the server accepts.
pub(super) fn trusted_audiences(metrics: &str) -> trusted::Audiences {
    let of_sample = |(labels, _): (&str, f64)| {
        let [system, issuer, audience] = ["system", "issuer", "audience"].map(|name| label(labels, name));
        Some(trusted::Audience { system: system?, issuer: issuer?, audience: audience? })
    };
    samples(metrics, "nagaya_trusted_audience").filter_map(of_sample).collect()
}

/// The samples of a metric: the text of the labels, and the value.
fn samples<'m>(metrics: &'m str, name: &str) -> impl Iterator<Item = (&'m str, f64)> {
    let sample = move |line: &'m str| {
        let rest = line.strip_prefix(name)?;
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest),
        };
        Some((labels, rest.trim().split(' ').next()?.parse::<f64>().ok()?))
    };
    metrics.lines().filter_map(sample)
}

/// The value of a label.
fn label(labels: &str, name: &str) -> Option<String> {
    let mut rest = labels;
    loop {
        let (key, after) = rest.split_once("=\"")?;
        let (mut value, mut letters) = (String::new(), after.chars());
        loop {
            match letters.next()? {
                '"' => break,
                '\\' => value.push(letters.next().map(|letter| if letter == 'n' { '\n' } else { letter })?),
                letter => value.push(letter),
            }
        }
        if key.trim_start_matches(',') == name {
            return Some(value);
        }
        rest = letters.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_a_value_for_each_of_its_labels() {
        let metrics = "# TYPE a counter\na_total{system=\"x\"} 2\na_total{system=\"y}\"} 1\na_total_other 9\nb 4\n";
        assert_eq!(values(metrics, "a_total").collect::<Vec<_>>(), [2.0, 1.0]);
        assert_eq!(values(metrics, "b").collect::<Vec<_>>(), [4.0]);
    }

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let labels = r#"system="a",issuer="x\"y\\z\n",audience="b=\",system=",empty="""#;
        assert_eq!(label(labels, "system").as_deref(), Some("a"));
        assert_eq!(label(labels, "issuer").as_deref(), Some("x\"y\\z\n"));
        assert_eq!(label(labels, "audience").as_deref(), Some("b=\",system="));
        assert_eq!(label(labels, "empty").as_deref(), Some(""));
        for damaged in ["", "system", r#"system="a"#, r#"system="a\"#] {
            assert_eq!(label(damaged, "system"), None, "{damaged}");
        }
    }
}
