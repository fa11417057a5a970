//! Limits of money and tokens, and what is used of them.

use axum::Json;
use axum::extract::State;
use skep_runtime::budgets::BudgetPage;

use crate::door::state::Doors;
use crate::request::problem::Problem;

/// What may be used in a day and a turn, what is used of it, and what calls under way hold.
#[utoipa::path(
    get, path = "/api/v1/budgets", tag = "hive",
    responses((status = 200, description = "The hive's and each agent's.", body = BudgetPage))
)]
pub(crate) async fn list(State(doors): State<Doors>) -> Result<Json<BudgetPage>, Problem> {
    Ok(Json(doors.hive.budgets()))
}
