//! What somebody who came in may do here: the answer of the table of roles, and the part of the
//! hive it is about. Handlers get one and pass its sight on to whatever reads.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use skep_core::ids::{Principal, SESSION_KEY_CHARACTERS, SessionKey, is_session_key};
use skep_core::role::decide;
use skep_runtime::door::{Action, Credential, DoorError, ErrorKind, Identity, Reach, Role, Sight};

use crate::request::problem::Problem;

#[derive(Clone, Debug)]
pub(crate) struct Permit {
    identity: Identity,
    reach: Reach,
}

impl Permit {
    /// Asks the table.
    pub(crate) fn ask(identity: &Identity, action: Action) -> Result<Self, DoorError> {
        match decide(identity.role, action) {
            Reach::Nothing => {
                let text = format!(
                    "the role {} may not do this ({}); use a token of another role \
                     (`skep token new NAME --role …`)",
                    identity.role.as_str(),
                    action.as_str()
                );
                Err(DoorError::new(ErrorKind::Forbidden, "role", text))
            }
            reach => Ok(Self { identity: identity.clone(), reach }),
        }
    }

    /// The same person, for something else.
    pub(crate) fn other(&self, action: Action) -> Result<Self, DoorError> {
        Self::ask(&self.identity, action)
    }

    pub(crate) fn role(&self) -> Role {
        self.identity.role
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.identity.principal
    }

    /// What whoever is here came in with.
    pub(crate) fn credential(&self) -> &Credential {
        &self.identity.credential
    }

    /// The part of the hive this is about. Whatever shows conversations is limited by it.
    pub(crate) fn sight(&self) -> Sight {
        match self.reach {
            Reach::All => Sight::All,
            Reach::Own | Reach::Nothing => self.identity.own.clone(),
        }
    }

    /// The conversation that is meant: a user's keys are apart from everybody else's, a channel
    /// names its own.
    pub(crate) fn session_key(
        &self,
        given: Option<String>,
        default: &str,
    ) -> Result<SessionKey, DoorError> {
        if given.as_deref().is_some_and(|key| !is_session_key(key)) {
            let text = format!(
                "A session key has 1 to {SESSION_KEY_CHARACTERS} characters, none of them a \
                 control character."
            );
            return Err(DoorError::new(ErrorKind::Invalid, "bad_session", text));
        }
        let Sight::Keys { prefix, .. } = self.sight() else {
            return Ok(SessionKey::new(given.unwrap_or_else(|| default.to_owned())));
        };
        match given {
            Some(key) if key.starts_with(&prefix) => Ok(SessionKey::new(key)),
            Some(_) if self.identity.role == Role::Channel => {
                let text = format!("sessions of this token begin with {prefix:?}; name such a one");
                Err(DoorError::new(ErrorKind::Forbidden, "foreign_session", text))
            }
            given => {
                let key = given.unwrap_or_else(|| default.to_owned());
                Ok(SessionKey::new(format!("{prefix}{key}")))
            }
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Permit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            tracing::error!(path = parts.uri.path(), "a route without a rule asks for a permit");
            let detail = "something went wrong inside; the log of the hive has the details";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn permit(role: Role, own: Sight) -> Permit {
        let principal = Principal::new("token:1");
        let identity = Identity { principal, role, credential: Credential::Owner, own };
        Permit::ask(&identity, Action::Talk).unwrap()
    }

    #[test]
    fn session_keys() {
        let principal = Principal::new("token:1");
        let operator = permit(Role::Operator, Sight::All);
        let user = permit(Role::User, Sight::of_user(&principal));
        let prefix = "discord:".to_owned();
        let channel = permit(Role::Channel, Sight::Keys { prefix, principal });
        let cases = [
            (&operator, None, Ok("main")),
            (&operator, Some("token:2/main"), Ok("token:2/main")),
            (&user, None, Ok("token:1/main")),
            (&user, Some("desk"), Ok("token:1/desk")),
            (&user, Some("token:1/desk"), Ok("token:1/desk")),
            (&user, Some("token:2/main"), Ok("token:1/token:2/main")),
            (&channel, None, Ok("discord:main")),
            (&channel, Some("discord:7"), Ok("discord:7")),
            (&channel, Some("main"), Err("foreign_session")),
            (&channel, Some("discordx:7"), Err("foreign_session")),
            (&operator, Some(""), Err("bad_session")),
            (&user, Some("a\nb"), Err("bad_session")),
        ];
        for (permit, given, expected) in cases {
            let key = permit.session_key(given.map(str::to_owned), "main");
            let key = key.as_ref().map(SessionKey::as_str).map_err(|error| error.code);
            assert_eq!(key, expected, "{given:?}");
        }
    }

    #[test]
    fn the_table_is_asked() {
        let identity = Identity {
            principal: Principal::new("token:1"),
            role: Role::Viewer,
            credential: Credential::Owner,
            own: Sight::All,
        };
        assert_eq!(Permit::ask(&identity, Action::Talk).unwrap_err().code, "role");
        let reading = Permit::ask(&identity, Action::ReadHistory).unwrap();
        assert_eq!(reading.sight(), Sight::All);
        assert!(reading.other(Action::ManageTokens).is_err());
    }
}
