//! Holds a stream back until its first bytes show that it is what its port is for (NET-5).

use tokio::time::timeout;

use crate::config::settings::Ech;
use crate::egress::Verdict;
use crate::egress::decide::stream_check;
use crate::egress::gate::Gate;
use crate::egress::hello::{self, Hidden, Objection, Opening};
use crate::egress::limits::SMALL_HEAD;
use crate::egress::refusal::Refusal;
use crate::egress::wire::Wire;
use crate::policy::authority::Authority;
use crate::policy::host_rule::StreamCheck;

/// Reads ahead until the stream may pass. Fails with the objection, or with `None` when the client left or was too slow.
/// Ports that the user named for other protocols carry any bytes, and so do rules that end in `/tcp`.
pub(super) async fn check(gate: &Gate, wire: &mut Wire, target: &Authority) -> Result<(), Option<Objection>> {
    if !matches!(target.port, 22 | 443)
        || stream_check(&gate.policy, target) == Some(StreamCheck::DangerAnyBytes)
    {
        return Ok(());
    }
    let hidden = match gate.policy.ech {
        Ech::Refuse => Hidden::Refused,
        Ech::Allow => Hidden::DangerPasses,
    };
    hold(gate, wire, |ahead| match target.port {
        443 => hello::tls(ahead, &target.host, hidden),
        _ => hello::ssh(ahead),
    })
    .await
}

/// The same for a host whose traffic is read: on any port it must be TLS for that host.
pub(super) async fn check_tls(
    gate: &Gate,
    wire: &mut Wire,
    target: &Authority,
) -> Result<(), Option<Objection>> {
    let hidden = match gate.policy.ech {
        Ech::Refuse => Hidden::Refused,
        Ech::Allow => Hidden::Ignored,
    };
    hold(gate, wire, |ahead| hello::tls(ahead, &target.host, hidden)).await
}

async fn hold(
    gate: &Gate,
    wire: &mut Wire,
    judge: impl Fn(&[u8]) -> Opening,
) -> Result<(), Option<Objection>> {
    let read = async {
        let mut large = None;
        loop {
            match judge(&wire.ahead) {
                Opening::Passes => return Ok(()),
                Opening::Refused(objection) => return Err(Some(objection)),
                Opening::Incomplete => {}
            }
            if wire.ahead.len() >= SMALL_HEAD && large.is_none() {
                large = gate.large_heads.acquire().await.ok();
            }
            match wire.fill().await {
                Ok(1..) => {}
                _ => return Err(None),
            }
        }
    };
    timeout(gate.deadlines.head, read).await.unwrap_or(Err(None))
}

/// The event of a stream that was cut.
pub(super) fn denied(target: &Authority, objection: &Objection) -> Verdict {
    let line = format!(
        "ai-jail: the connection to {target} was cut ({objection}); a rule {target}/tcp lets any bytes pass"
    );
    Verdict::Denied(Refusal::of_stream(line))
}

/// The event of a stream to a host whose traffic is read, that was cut.
pub(super) fn denied_inspected(target: &Authority, objection: &Objection) -> Verdict {
    let line = format!(
        "ai-jail: the connection to {target} was cut ({objection}); secrets or HTTP rules are for this host, so that it is reached \
         by HTTPS alone"
    );
    Verdict::Denied(Refusal::of_stream(line))
}
