package v1alpha1

import "strings"

// AnnotationHold begins the annotations that hold members. Each writer chooses the rest of the key; the value names one member and
// its VM:
//
//	hold.vm.codeconnect.vmworld.com/drain-web-1: web-1/vm-42
//
// From when that member is marked to be taken down, it stays up until the annotation is removed, or for spec.deletion.holdTimeoutSeconds.
const AnnotationHold = "hold.vm.codeconnect.vmworld.com/"

// Held returns the member and the VM that the value of such an annotation names; ok is false if it is malformed. (It is no part of the spec,
// so no error refuses it.)
func (g *VmGroup) Held(value string) (member, ref string, ok bool) {
	member, ref, _ = strings.Cut(value, "/")
	return member, ref, memberName(nil, member, g.Name) == nil && len(ref) <= MaxMoRefLength && moRef.MatchString(ref)
}
