// Package rights is what the clients of the embedded vCenter may do and see: the privileges of their role, calls that are denied
// to them, and objects that are hidden from them.
//
// It promises that a client without the privileges that VMware documents for a call is told NoPermission, as a real vCenter
// tells it, and that nothing of this holds for Admin.
//
// The order of locks: mu comes last. Questions about an object's parents lock one object at a time.
package rights
