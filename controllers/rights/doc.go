// Package rights keeps the roles that every hub has, and writes the rules of roles that gather others.
//
// The ready-made roles are admin, operator, viewer and installer for people, and system:discovery and system:basic-user, which are bound to
// everybody who is known. Each is made when it is missing, and given the rules of this release that it lacks; rules that an operator added
// stay. The annotation rbac.authorization.kubernetes.io/autoupdate: "false" leaves it alone, as in Kubernetes. Nobody else has a right by
// default.
//
// A ClusterRole with an aggregationRule gets the rules of every other ClusterRole that a selector of its matches, and no others. Its rules stand in
// the object, so that people read what they give and admission judges it.
//
// The package does not decide who may do something, and writes no Role and no RoleBinding.
package rights
