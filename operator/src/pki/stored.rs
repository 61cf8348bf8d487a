//! The authority's Secret: made once. Of replicas that start together, one creates it and the others read it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, PostParams};
use terrace_identity::{Authority, SnapshotKey};

use super::{Error, Pki};
use crate::apply::{MANAGER, code};

/// Name of the Secret.
pub const NAME: &str = "terrace-authority";

const CERT: &str = "ca.crt";
const KEY: &str = "ca.key";
const SIGNING: &str = "snapshot.key";

/// Reads the fleet's trust, or makes it. The chart brings the Secret empty, so that it goes with the chart.
///
/// # Errors
/// When it can neither be read nor made.
pub async fn ensure(client: Client, namespace: &str, cluster_uid: &str) -> Result<Pki, Error> {
    let api: Api<Secret> = Api::namespaced(client, namespace);
    let failed = |verb| move |source| Error::Api { verb, source: Box::new(source) };
    let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
    let (verb, made) = match api.get_opt(NAME).await.map_err(failed("get"))? {
        Some(secret) if secret.data.as_ref().is_none_or(BTreeMap::is_empty) => {
            // The resource version in it makes the second of two replicas lose.
            let filled = Secret { data: make(cluster_uid)?.data, ..secret };
            ("update", api.replace(NAME, &params, &filled).await)
        }
        Some(secret) => return read(&secret, namespace),
        None => ("create", api.create(&params, &make(cluster_uid)?).await),
    };
    match made {
        Ok(secret) => {
            tracing::info!(secret = NAME, "made the fleet's certificate authority");
            read(&secret, namespace)
        }
        Err(error) if code(&error) == Some(409) => read(&api.get(NAME).await.map_err(failed("get"))?, namespace),
        Err(error) => Err(failed(verb)(error)),
    }
}

fn make(cluster_uid: &str) -> Result<Secret, Error> {
    let authority = Authority::generate(cluster_uid, SystemTime::now())?;
    let key = SnapshotKey::generate()?;
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(NAME.into()),
            // Without our managed-by label: no watch on children sees the authority's key.
            labels: Some([("app.kubernetes.io/name".to_owned(), "terrace".to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(
            [
                (CERT, authority.cert_pem().as_bytes().to_vec()),
                (KEY, authority.key_pem().as_bytes().to_vec()),
                (SIGNING, key.pkcs8().to_vec()),
            ]
            .map(|(name, bytes)| (name.to_owned(), ByteString(bytes)))
            .into(),
        ),
        type_: Some("Opaque".into()),
        ..Secret::default()
    })
}

fn read(secret: &Secret, namespace: &str) -> Result<Pki, Error> {
    let entry = |name: &'static str| {
        secret.data.as_ref().and_then(|d| d.get(name)).map(|b| b.0.as_slice()).ok_or(Error::Incomplete(name))
    };
    let text = |name| Ok::<_, Error>(String::from_utf8_lossy(entry(name)?).into_owned());
    let authority = Authority::from_pem(&text(CERT)?, &text(KEY)?)?;
    Pki::new(authority, SnapshotKey::from_pkcs8(entry(SIGNING)?)?, namespace)
}
