package v1alpha1

import "strings"

// AnnotationHold begins the annotations that hold members. Each writer chooses the rest of the key; the value names one member and
// its VM:
//
//	hold.vm.codeconnect.vmworld.com/drain-web-1: web-1/vm-42
//
// When the server is about to take that member down, it first waits until the annotation is removed, for at most
// spec.deletion.holdTimeoutSeconds.
const AnnotationHold = "hold.vm.codeconnect.vmworld.com/"

// Held returns the member and the VM that the value of a hold annotation names; ok is false if the value is malformed. (Validate can't
// refuse a malformed value, because annotations aren't part of the spec.)
func (g *VmGroup) Held(value string) (member, ref string, ok bool) {
	member, ref, _ = strings.Cut(value, "/")
	return member, ref, memberName(nil, member, g.Name) == nil && len(ref) <= MaxMoRefLength && moRef.MatchString(ref)
}
