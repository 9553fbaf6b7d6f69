// Package must says in one line which call a test needs to succeed.
package must

// Succeed ends a test, a benchmark or a property if err is not nil.
func Succeed(t interface{ Fatal(...any) }, err error) {
	if h, is := t.(interface{ Helper() }); is {
		h.Helper()
	}
	if err != nil {
		t.Fatal(err)
	}
}
