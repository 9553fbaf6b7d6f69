// Package rights is the permissions of the embedded vCenter's clients: the privileges of their role, denied calls, and hidden objects.
//
// A client without the privileges that VMware documents for a call gets NoPermission, as in a real vCenter. None of this applies to Admin.
//
// Lock order: mu comes last. A walk up the parents of an object locks one object at a time.
package rights
