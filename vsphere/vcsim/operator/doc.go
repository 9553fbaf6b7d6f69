// Package operator performs an operator's actions in the embedded vCenter, through vCenter's API and as Admin.
//
// Every method returns after the end of its task. The package has no locks.
package operator
