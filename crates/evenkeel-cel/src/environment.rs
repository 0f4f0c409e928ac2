//! What expressions may name, and compiled expressions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::ast::{Expr, ExprKind};
use crate::checker::{self, Checked};
use crate::cost::{CostEstimate, Estimator};
use crate::error::EvalError;
use crate::eval::Evaluator;
use crate::patches;
use crate::schema::{DeclType, ObjectDecl};
use crate::source::{CompileError, Issue, Source};
use crate::syntax::{self, Macros};
use crate::types::Type;
use crate::validators;
use crate::value::Value;

/// The minor release of Kubernetes whose functions stored expressions may use.
const STORED_RELEASE: u32 = 37;

/// The variables and functions that expressions may name.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Shared by clones until one of them declares another.
    variables: Arc<Vec<Variable>>,
    objects: Arc<HashMap<String, Arc<ObjectDecl>>>,
    has_patch_types: bool,
    release: u32,
}

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    of: Type,
    /// The declaration behind the type, for the estimate of sizes.
    decl: Option<DeclType>,
}

impl Default for Environment {
    fn default() -> Self {
        Environment {
            variables: Arc::default(),
            objects: Arc::default(),
            has_patch_types: false,
            release: STORED_RELEASE,
        }
    }
}

impl Environment {
    /// Returns an environment without variables, for expressions that are stored already.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves out functions that the previous release did not have, so that what is written now stays valid after a
    /// rollback.
    #[must_use]
    pub fn for_new_expressions(mut self) -> Self {
        self.release = STORED_RELEASE - 1;
        self
    }

    /// Declares a variable with the type of a JSON value.
    #[must_use]
    pub fn with_json(mut self, name: &str, decl: DeclType) -> Self {
        self.declare(Variable { name: name.to_owned(), of: decl.to_type(), decl: Some(decl) });
        self
    }

    /// Declares a variable that is an optional JSON value.
    #[must_use]
    pub fn with_optional_json(mut self, name: &str, decl: DeclType) -> Self {
        self.declare(Variable { name: name.to_owned(), of: Type::optional(decl.to_type()), decl: Some(decl) });
        self
    }

    /// Declares a variable. The name may have dots.
    #[must_use]
    pub fn with_variable(mut self, name: &str, of: Type) -> Self {
        self.declare(Variable { name: name.to_owned(), of, decl: None });
        self
    }

    fn declare(&mut self, variable: Variable) {
        Arc::make_mut(&mut self.variables).push(variable);
    }

    /// Declares the variables `authorizer` and `authorizer.requestResource`.
    #[must_use]
    pub fn with_authorizer(self) -> Self {
        use crate::library::opaque::{AUTHORIZER, RESOURCE_CHECK};
        self.with_variable("authorizer", Type::opaque(AUTHORIZER))
            .with_variable("authorizer.requestResource", Type::opaque(RESOURCE_CHECK))
    }

    /// Declares an object type that expressions may construct.
    #[must_use]
    pub fn with_object(mut self, object: Arc<ObjectDecl>) -> Self {
        Arc::make_mut(&mut self.objects).insert(object.name().to_owned(), object);
        self
    }

    /// Declares what expressions build patches from: `JSONPatch`; `Object` and its parts, such as `Object.spec`, whose fields
    /// may have any name; and `jsonpatch.escapeKey`.
    ///
    /// ```
    /// use evenkeel_cel::{Environment, Value};
    ///
    /// let environment = Environment::new().with_patch_types();
    /// let text = "Object{spec: Object.spec{replicas: 3}}";
    /// let program = environment.compile(text)?.into_program();
    /// let no_variables: [(&str, Value); 0] = [];
    /// let made = program.evaluate(&no_variables[..], 1000).result?;
    /// assert_eq!(made.to_json(), Some(serde_json::json!({"spec": {"replicas": 3}})));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_patch_types(mut self) -> Self {
        self.has_patch_types = true;
        self.with_object(patches::operation_type())
    }

    pub(crate) fn has_patch_types(&self) -> bool {
        self.has_patch_types
    }

    pub(crate) fn variable_type(&self, name: &str) -> Option<&Type> {
        self.find(name).map(|variable| &variable.of)
    }

    pub(crate) fn variable_decl(&self, name: &str) -> Option<&DeclType> {
        self.find(name).and_then(|variable| variable.decl.as_ref())
    }

    pub(crate) fn first_decl(&self) -> Option<&DeclType> {
        self.variables.iter().find_map(|variable| variable.decl.as_ref())
    }

    fn find(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().rev().find(|variable| variable.name == name)
    }

    pub(crate) fn object(&self, name: &str) -> Option<Arc<ObjectDecl>> {
        let declared = self.objects.get(name).cloned();
        declared.or_else(|| {
            let is_part = self.has_patch_types && patches::is_object_part(name);
            is_part.then(|| Arc::new(ObjectDecl::open(name)))
        })
    }

    pub(crate) fn release(&self) -> u32 {
        self.release
    }

    /// Parses and checks an expression.
    pub fn compile(&self, text: &str) -> Result<Compiled, CompileError> {
        let source = Source::new(text);
        let fail = |issues: Vec<Issue>| CompileError::new(&source, issues);
        let parsed = syntax::parse(&source, Macros::Expanded).map_err(fail)?;
        let mut root = parsed.root;
        let checked = checker::check(&mut root, &parsed.offsets, &source, self).map_err(fail)?;
        let issues = validators::literal_issues(&root, &parsed.offsets, &source);
        if !issues.is_empty() {
            return Err(fail(issues));
        }
        Ok(Compiled { root, checked })
    }
}

/// An expression with the types of its parts.
#[derive(Debug)]
pub struct Compiled {
    root: Expr,
    checked: Checked,
}

impl Compiled {
    /// Returns the type of the value.
    pub fn result_type(&self) -> &Type {
        self.checked.type_of(self.root.id)
    }

    /// Returns the bounds of the cost of an evaluation, with variables of the environment that compiled it.
    pub fn estimate(&self, environment: &Environment) -> CostEstimate {
        Estimator::new(environment, &self.checked).total(&self.root)
    }

    /// Returns what evaluations need.
    pub fn into_program(self) -> Program {
        Program { height: height(&self.root), root: self.root }
    }
}

/// An expression that can be evaluated.
#[derive(Debug)]
pub struct Program {
    root: Expr,
    height: usize,
}

/// The values of variables during an evaluation.
pub trait Variables<'a> {
    /// Returns the value of a variable; `None` if it has none.
    fn value(&self, name: &str) -> Option<Result<Value<'a>, EvalError>>;
}

impl<'a> Variables<'a> for [(&str, Value<'a>)] {
    fn value(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| Ok(value.clone()))
    }
}

/// The result of an evaluation, and what it cost.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The value, or why there is none.
    pub result: Result<Value<'a>, EvalError>,
    /// The cost, also of a failed evaluation.
    pub cost: u64,
}

impl Program {
    /// Evaluates within a cost limit.
    pub fn evaluate<'a>(&self, variables: &(impl Variables<'a> + ?Sized), limit: u64) -> Evaluation<'a> {
        let lookup = |name: &str| variables.value(name);
        let mut evaluator = Evaluator::new(&lookup, limit);
        let result = evaluator.evaluate(&self.root);
        Evaluation { result, cost: evaluator.cost() }
    }

    /// Returns the height of the expression, which the stack of an evaluation grows with.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Returns the names of the variables that the expression may ask for, with those of its own comprehensions.
    pub fn variables(&self) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        walk(&self.root, &mut |expr| {
            if let ExprKind::Ident(name) = &expr.kind {
                found.insert(name.strip_prefix('.').unwrap_or(name));
            }
        });
        found
    }

    /// Returns whether the expression names a variable.
    pub fn references(&self, name: &str) -> bool {
        names(&self.root, name)
    }

    /// Returns an estimate of the memory that the program takes.
    pub fn memory(&self) -> usize {
        nodes(&self.root) * 192
    }
}

fn children<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    match &expr.kind {
        ExprKind::Literal(_) | ExprKind::Ident(_) => {}
        ExprKind::Select { operand, .. } => visit(operand),
        ExprKind::Call(call) => call.target.iter().chain(&call.args).for_each(visit),
        ExprKind::List { elements, .. } => elements.iter().for_each(visit),
        ExprKind::Map(entries) => entries.iter().for_each(|entry| {
            visit(&entry.key);
            visit(&entry.value);
        }),
        ExprKind::Struct { fields, .. } => fields.iter().for_each(|field| visit(&field.value)),
        ExprKind::Comprehension(fold) => {
            [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result].into_iter().for_each(visit);
        }
    }
}

fn names(expr: &Expr, name: &str) -> bool {
    let own = matches!(&expr.kind, ExprKind::Ident(ident) if ident == name
        || ident.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')));
    let mut found = own;
    children(expr, &mut |child| found = found || names(child, name));
    found
}

fn height(expr: &Expr) -> usize {
    let mut tallest = 0;
    children(expr, &mut |child| tallest = tallest.max(height(child)));
    tallest + 1
}

fn nodes(expr: &Expr) -> usize {
    let mut count = 1;
    children(expr, &mut |child| count += nodes(child));
    count
}

/// Calls a function for an expression and everything below.
pub(crate) fn walk<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    visit(expr);
    children(expr, &mut |child| walk(child, visit));
}
