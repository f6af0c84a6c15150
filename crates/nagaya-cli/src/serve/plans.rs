//! The plans that users of a system can subscribe to.

use std::path::PathBuf;

use anyhow::Context as _;
use nagaya_kondate::SubscriptionPlans;

use crate::systems::Resources;

/// What users can subscribe to.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlanArgs {
    /// A JSON file with the plans that users can subscribe to, where a system sells subscriptions: `[{"name": "premium",
    /// "price": 480, "periodDays": 30}]`. Without it there are some in development, and none in production
    #[arg(long, value_name = "FILE", env = "NAGAYA_SUBSCRIPTION_PLANS")]
    subscription_plans: Option<PathBuf>,
}

impl PlanArgs {
    /// The same resources with the plans of the file.
    pub(crate) fn add_to(&self, resources: Resources) -> anyhow::Result<Resources> {
        let Some(path) = &self.subscription_plans else { return Ok(resources) };
        let shown = path.display();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read the subscription plans in {shown}"))?;
        let plans = SubscriptionPlans::from_json(&text)
            .with_context(|| format!("correct the subscription plans in {shown}"))?;
        Ok(Resources { subscription_plans: Some(plans), ..resources })
    }
}
