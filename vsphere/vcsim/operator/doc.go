// Package operator is a person who works with the embedded vCenter: all that is done here vCenter has calls for, and it is done
// by these, as Admin.
//
// It promises that what it begins has ended when it returns. It has no locks.
package operator
