//! What expressions of policies and of match conditions see (VAP-004): the types of variables, and their values.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock};

use evenkeel_cel::{
    Authorizer, Check, CompileError, Decision, DeclKind, DeclType, Environment, EvalError, ListIdentity, ObjectDecl,
    Program, Type, Value as CelValue, Variables,
};
use serde_json::Value;

use crate::authorization::{AccessAttributes, AccessDecision, AccessTarget, ResourceAttributes};
use crate::engine::ApiEngine;
use crate::engine::admission::reviewed::ReviewedWrite;
use crate::http_types::User;

/// What one evaluation may cost.
const EVALUATION_LIMIT: u64 = 1_000_000;

/// The height of expressions that may be evaluated on the stack, each for the one before. It is that of the tallest single one.
const MAX_HEIGHT: usize = 250;

/// The most parts of the value of a named expression, and their depth. A chain of variables doubles its value with every link.
const MAX_PARTS: usize = 1 << 20;
const MAX_DEPTH: usize = 256;

/// Which variables an expression may name beside `object`, `oldObject`, `request` and `namespaceObject`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpressionScope {
    pub(crate) has_params: bool,
    pub(crate) has_authorizer: bool,
}

fn scalar(kind: DeclKind) -> DeclType {
    DeclType::new(kind, None, 1)
}

fn list(item: DeclType) -> DeclType {
    DeclType::new(DeclKind::List(Arc::new(item), ListIdentity::Atomic), None, 2)
}

fn map(value: DeclType) -> DeclType {
    DeclType::new(DeclKind::Map(Arc::new(value)), None, 2)
}

fn object(name: &str, fields: Vec<(&str, DeclType)>) -> DeclType {
    let fields = fields.into_iter().map(|(name, decl)| (name.to_owned(), decl));
    DeclType::new(DeclKind::Object(Arc::new(ObjectDecl::with_plain_names(name, fields))), None, 2)
}

/// The type of `request`.
static REQUEST: LazyLock<DeclType> = LazyLock::new(|| {
    let text = || scalar(DeclKind::String);
    let kind = || object("kubernetes.GroupVersionKind", vec![("group", text()), ("version", text()), ("kind", text())]);
    let resource = || {
        object("kubernetes.GroupVersionResource", vec![("group", text()), ("version", text()), ("resource", text())])
    };
    let user = object(
        "kubernetes.UserInfo",
        vec![("username", text()), ("uid", text()), ("groups", list(text())), ("extra", map(list(text())))],
    );
    object(
        "kubernetes.AdmissionRequest",
        vec![
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", scalar(DeclKind::Bool)),
            ("options", scalar(DeclKind::Dyn)),
        ],
    )
});

/// The type of `namespaceObject`.
static NAMESPACE: LazyLock<DeclType> = LazyLock::new(|| {
    let text = || scalar(DeclKind::String);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        vec![
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", map(text())),
            ("annotations", map(text())),
            ("UID", text()),
            ("creationTimestamp", scalar(DeclKind::DateTime)),
            ("deletionGracePeriodSeconds", scalar(DeclKind::Int)),
            ("deletionTimestamp", scalar(DeclKind::DateTime)),
            ("generation", scalar(DeclKind::Int)),
            ("resourceVersion", text()),
            ("finalizers", list(text())),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", vec![("finalizers", list(text()))]);
    let status = object("kubernetes.NamespaceStatus", vec![("phase", text())]);
    object(
        "kubernetes.Namespace",
        vec![("metadata", metadata), ("spec", spec), ("status", status), ("apiVersion", text()), ("kind", text())],
    )
});

/// An empty object, so that an unknown variable is reported as an undefined field.
static NO_VARIABLES: LazyLock<DeclType> = LazyLock::new(|| object("kubernetes.variables", Vec::new()));

/// Returns the environment of expressions.
pub(crate) fn environment(scope: ExpressionScope) -> Environment {
    typed_environment(scope, None, None)
}

/// Returns the environment of expressions about objects and parameters of known types.
pub(crate) fn typed_environment(
    scope: ExpressionScope,
    object: Option<DeclType>,
    params: Option<DeclType>,
) -> Environment {
    let with = |environment: Environment, name: &str, decl: Option<DeclType>| match decl {
        Some(decl) => environment.with_json(name, decl),
        None => environment.with_variable(name, Type::Dyn),
    };
    let environment = with(Environment::new(), "object", object.clone());
    let mut environment = with(environment, "oldObject", object)
        .with_json("request", REQUEST.clone())
        .with_json("namespaceObject", NAMESPACE.clone());
    if scope.has_params {
        environment = with(environment, "params", params);
    }
    if scope.has_authorizer {
        environment = environment.with_authorizer();
    }
    environment
}

/// Declares `variables` without any. Expressions of a policy without variables do not know the name.
pub(crate) fn with_no_variables(environment: Environment) -> Environment {
    environment.with_json("variables", NO_VARIABLES.clone())
}

/// The named expressions of a policy, in their order. Each may ask for those before it.
#[derive(Debug, Default)]
pub(crate) struct NamedExpressions {
    programs: Vec<Program>,
    /// Positions by name, as `variables.NAME`.
    positions: HashMap<String, usize>,
    /// The positions that each asks for itself.
    needs: Vec<Vec<usize>>,
    /// The height of each with the tallest chain that it asks for.
    heights: Vec<usize>,
    tallest: usize,
}

impl NamedExpressions {
    /// Compiles the expressions, and declares them.
    pub(crate) fn compile(mut environment: Environment, list: &[Value]) -> Result<(Environment, Self), CompileError> {
        let mut named = NamedExpressions::default();
        if !list.is_empty() {
            environment = with_no_variables(environment);
        }
        for (position, variable) in list.iter().enumerate() {
            let name = format!("variables.{}", variable.get("name").and_then(Value::as_str).unwrap_or_default());
            let expression = variable.get("expression").and_then(Value::as_str).unwrap_or_default();
            let compiled = environment.compile(expression)?;
            environment = environment.with_variable(&name, compiled.result_type().clone());
            let program = compiled.into_program();
            let needs = named.needs_of(&program);
            let below = needs.iter().filter_map(|need| named.heights.get(*need)).max().copied().unwrap_or(0);
            let height = program.height().saturating_add(below);
            named.tallest = named.tallest.max(height);
            named.heights.push(height);
            named.needs.push(needs);
            named.programs.push(program);
            named.positions.insert(name, position);
        }
        Ok((environment, named))
    }

    /// Returns the positions that an expression asks for.
    fn needs_of(&self, program: &Program) -> Vec<usize> {
        program.variables().into_iter().filter_map(|name| self.positions.get(name).copied()).collect()
    }

    /// Returns the positions that an expression needs, itself or through others, in their order.
    fn all_needs(&self, program: &Program) -> BTreeSet<usize> {
        let mut open = self.needs_of(program);
        let mut found: BTreeSet<usize> = open.iter().copied().collect();
        while let Some(next) = open.pop() {
            let needs = self.needs.get(next).into_iter().flatten();
            open.extend(needs.copied().filter(|need| found.insert(*need)));
        }
        found
    }
}

/// The authorizer of the server, asked by the user of the request.
struct EngineAuthorizer<'e> {
    engine: &'e ApiEngine,
    user: &'e User,
}

impl fmt::Debug for EngineAuthorizer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineAuthorizer").finish_non_exhaustive()
    }
}

impl Authorizer for EngineAuthorizer<'_> {
    fn decide(&self, check: &Check<'_>, verb: &str) -> Decision {
        let account = check.service_account.as_ref().map(|(namespace, name)| User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            ..User::default()
        });
        let target = match &check.path {
            Some(path) => AccessTarget::Path(path),
            None => AccessTarget::Resource(ResourceAttributes {
                group: check.group.as_deref().unwrap_or_default(),
                resource: check.resource.as_deref().unwrap_or_default(),
                subresource: &check.subresource,
                namespace: &check.namespace,
                name: &check.name,
            }),
        };
        let access = AccessAttributes { user: account.as_ref().unwrap_or(self.user), verb, target };
        match self.engine.authorize(&access) {
            AccessDecision::Allowed { reason } => Decision { allowed: true, reason, error: None },
            AccessDecision::Denied { reason } => Decision { allowed: false, reason, error: None },
        }
    }
}

/// Returns the value of `authorizer` for a user.
pub(crate) fn authorizer<'e>(engine: &'e ApiEngine, user: &'e User) -> Check<'e> {
    Check::new(Arc::new(EngineAuthorizer { engine, user }))
}

/// The values of variables during the evaluations of one policy, and what those may still cost.
pub(crate) struct PolicyVariables<'a> {
    reviewed: &'a ReviewedWrite,
    namespace: &'a Value,
    params: &'a Value,
    authorizer: Check<'a>,
    named: &'a NamedExpressions,
    computed: RefCell<HashMap<usize, Result<CelValue<'a>, EvalError>>>,
    left: Cell<u64>,
}

/// Why an expression has no value.
#[derive(Debug)]
pub(crate) enum ExpressionFault {
    Failed(EvalError),
    /// All expressions together cost too much.
    BudgetSpent,
}

impl<'a> PolicyVariables<'a> {
    /// Returns the values for a write, without a budget. `objects` are the namespace of the request and the parameters.
    pub(crate) fn new(
        reviewed: &'a ReviewedWrite,
        objects: (&'a Value, &'a Value),
        authorizer: Check<'a>,
        named: &'a NamedExpressions,
    ) -> Self {
        let (namespace, params) = objects;
        PolicyVariables {
            reviewed,
            namespace,
            params,
            authorizer,
            named,
            computed: RefCell::default(),
            left: Cell::new(0),
        }
    }

    /// Sets what all evaluations together may cost.
    pub(crate) fn with_budget(mut self, budget: u64) -> Self {
        self.left = Cell::new(budget);
        self
    }

    /// Evaluates an expression within the budget.
    pub(crate) fn evaluate(&self, program: &Program) -> Result<CelValue<'a>, ExpressionFault> {
        self.prepare(program);
        let evaluation = program.evaluate(self, EVALUATION_LIMIT);
        if !self.charge(evaluation.cost) {
            return Err(ExpressionFault::BudgetSpent);
        }
        evaluation.result.map_err(ExpressionFault::Failed)
    }

    /// Evaluates the named expressions that another one needs, in order, if the stack would grow with their chain. Others are
    /// evaluated when they are asked for.
    fn prepare(&self, program: &Program) {
        if self.named.tallest.saturating_add(program.height()) <= MAX_HEIGHT {
            return;
        }
        for need in self.named.all_needs(program) {
            // An error counts where the value is used.
            drop(self.named_value(need));
        }
    }

    /// Returns the value of a named expression, which is evaluated once.
    fn named_value(&self, position: usize) -> Result<CelValue<'a>, EvalError> {
        if let Some(value) = self.computed.borrow().get(&position) {
            return value.clone();
        }
        let Some(program) = self.named.programs.get(position) else { return Err(EvalError::CostLimit) };
        let evaluation = program.evaluate(self, EVALUATION_LIMIT);
        let result = match evaluation.result {
            _ if !self.charge(evaluation.cost) => Err(EvalError::CostLimit),
            Ok(value) if !value.is_bounded(MAX_PARTS, MAX_DEPTH) => {
                Err(EvalError::Failed("the value of the variable is too large".into()))
            }
            result => result,
        };
        self.computed.borrow_mut().insert(position, result.clone());
        result
    }

    fn charge(&self, cost: u64) -> bool {
        let left = self.left.get().checked_sub(cost);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }
}

impl<'a> Variables<'a> for PolicyVariables<'a> {
    fn value(&self, name: &str) -> Option<Result<CelValue<'a>, EvalError>> {
        Some(Ok(match name {
            "object" => CelValue::from_any_json(&self.reviewed.object),
            "oldObject" => CelValue::from_any_json(&self.reviewed.old),
            "request" => CelValue::from_json(&self.reviewed.request, &REQUEST),
            "namespaceObject" => CelValue::from_json(self.namespace, &NAMESPACE),
            "params" => CelValue::from_any_json(self.params),
            "authorizer" => self.authorizer.clone().into_value(),
            "authorizer.requestResource" => request_check(&self.authorizer, &self.reviewed.request).into_value(),
            name => return self.named.positions.get(name).map(|position| self.named_value(*position)),
        }))
    }
}

/// Returns the question whether the resource of the request may be accessed.
fn request_check<'a>(authorizer: &Check<'a>, request: &Value) -> Check<'a> {
    let text = |path: &str| request.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut check = authorizer.clone();
    check.group = Some(text("/requestResource/group"));
    check.resource = Some(text("/requestResource/resource"));
    check.subresource = text("/requestSubResource");
    check.namespace = text("/namespace");
    check.name = text("/name");
    check
}
