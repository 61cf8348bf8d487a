//! An API server that is late, breaks off, loses answers, refuses or is away: the operator ends where an undisturbed one does.

use std::time::Duration;

use anyhow::ensure;

use super::super::process::Operator;
use super::proxy::Fault;
use super::stops::Solo;
use super::{lines, quiet};
use crate::steps::Steps;
use crate::wait::{self, secs};

/// So many requests at least must have met a fault.
const MET: u32 = 6;

/// One step a fault.
pub(super) async fn steps(solo: &mut Solo<'_>, steps: &mut Steps) {
    // While these last, the operator must get there all the same.
    let during = [
        ("every answer is late and they overtake one another", "late", Fault::Late(Duration::from_millis(300))),
        ("each fourth answer breaks off in its middle", "cut", Fault::Cut(4)),
        ("the answer to each third write is lost", "lost", Fault::Lost(3)),
    ];
    for (what, name, fault) in during {
        let work = async {
            let namespace = format!("fault-{name}");
            solo.proxy.set(fault);
            solo.quick_start(&namespace).await?;
            solo.converged(&namespace).await?;
            ensure!(solo.proxy.met() >= MET, "only {} requests met it", solo.proxy.met());
            Ok(())
        };
        steps.step(&format!("{what}: it ends where an undisturbed one does"), secs(90), work).await;
    }
    // While these last, nothing can be done; afterwards it must go on.
    let before = [
        ("every request is refused for a while", "refused", Fault::Refused),
        ("every connection is closed for a while", "closed", Fault::Closed),
    ];
    for (what, name, fault) in before {
        let work = async {
            let namespace = format!("fault-{name}");
            // Half of the work is done when it begins.
            solo.proxy.arm(Fault::Stop(format!("/namespaces/{namespace}/"), 8));
            solo.quick_start(&namespace).await?;
            solo.proxy.stopped().await?;
            solo.proxy.set(fault);
            wait::until("requests that meet it", secs(40), async || {
                ensure!(solo.proxy.met() >= MET, "{} requests met it", solo.proxy.met());
                Ok(())
            })
            .await?;
            solo.proxy.set(Fault::None);
            solo.converged(&namespace).await
        };
        steps.step(&format!("{what}: it ends where an undisturbed one does"), secs(120), work).await;
    }
    solo.proxy.set(Fault::None);
}

/// Namespaces that are deleted as they are: the operator lets them go, and then ends.
pub(super) async fn namespaces_that_go(mut solo: Solo<'_>, steps: &mut Steps) -> Option<()> {
    steps
        .step("a namespace that goes is let go: nothing is made in it", secs(90), async {
            quiet(&solo.audit, 0, secs(2)).await?;
            let mark = solo.audit.mark()?;
            for namespace in &solo.namespaces {
                solo.rest.delete(&format!("/api/v1/namespaces/{namespace}")).await?;
            }
            wait::until("the namespaces to be gone", secs(80), async || {
                let all = solo.rest.get("/api/v1/namespaces").await?.to_string();
                let left: Vec<_> = solo.namespaces.iter().filter(|n| all.contains(&format!("\"{n}\""))).collect();
                ensure!(left.is_empty(), "{left:?} are left");
                Ok(())
            })
            .await?;
            let refused: Vec<_> = solo.audit.writes(mark)?.into_iter().filter(|r| r.code == 403).collect();
            // The news that a namespace goes may come a moment after the first of its objects went.
            ensure!(refused.len() <= 2, "{} requests were refused:\n{}", refused.len(), lines(&refused));
            solo.operator.take().map(Operator::stop).ok_or_else(|| anyhow::anyhow!("no operator"))?.await
        })
        .await
}
