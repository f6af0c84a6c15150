//! The file with the plans that users of a system can subscribe to.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::systems::{Resources, SettingsFile};

/// What users can subscribe to.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlanArgs {
    /// A JSON file with the plans that users can subscribe to, where a system sells subscriptions: `[{"name": "premium",
    /// "price": 480, "periodDays": 30}]`. For development alone: this program has no payment provider for production
    #[arg(long, value_name = "FILE", env = "NAGAYA_SUBSCRIPTION_PLANS")]
    subscription_plans: Option<PathBuf>,
}

impl PlanArgs {
    /// The same resources with the text of the file, which the system reads.
    pub(crate) fn add_to(&self, resources: Resources) -> anyhow::Result<Resources> {
        let Some(path) = &self.subscription_plans else { return Ok(resources) };
        if resources.is_production {
            bail!(
                "--subscription-plans: this program declines all payments in production, because its payment provider is for \
                 development. Leave the plans out, or build a program that has a provider (docs/how-to/take-payments.md)"
            );
        }
        let shown = path.display().to_string();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read the subscription plans in {shown}"))?;
        Ok(Resources { subscription_plans: Some(SettingsFile { path: shown, text }), ..resources })
    }
}
