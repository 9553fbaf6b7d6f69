package v1alpha1_test

import (
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

func TestTheNumbersOfPersistentDisksAreBounded(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		replicas, persistent int
		annotation, text     string
		refused              string
	}{
		"as many as the status can list": {replicas: 1000, persistent: 4},
		"one more of each":               {replicas: 1000, persistent: 5, refused: "spec.replicas"},
		"a thousand ids":                 {replicas: 1, annotation: v1alpha1.AnnotationGiveUpDisks, text: strings.Repeat("x,", v1alpha1.MaxGivenUp-1) + "x"},
		"a thousand and one":             {replicas: 1, annotation: v1alpha1.AnnotationGiveUpDisks, text: strings.Repeat("x,", v1alpha1.MaxGivenUp) + "x", refused: "give-up-disks"},
		"a UID":                          {replicas: 1, annotation: v1alpha1.AnnotationTakeDisksOf, text: "0c8d4b1e-7a44-4f5c-9a3c-3f0d2b1a9c77"},
		"a text that is no UID":          {replicas: 1, annotation: v1alpha1.AnnotationTakeDisksOf, text: strings.Repeat("x", v1alpha1.MaxUID+1), refused: "take-disks-of"},
	} {
		replicas := int32(c.replicas)
		g := v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{Replicas: &replicas, CPU: 1, Memory: 1, Template: "ubuntu"}}
		g.Name, g.Annotations = "web", map[string]string{c.annotation: c.text}
		for i := range c.persistent {
			g.Spec.Disks = append(g.Spec.Disks, v1alpha1.Disk{Name: "data" + string(rune('a'+i)), SizeGiB: 1, Persistent: true})
		}
		g.Spec.Disks = append(g.Spec.Disks, v1alpha1.Disk{Name: "scratch", SizeGiB: 1})
		switch errs := g.Validate(); {
		case c.refused == "" && len(errs) > 0:
			t.Errorf("%s: %v", what, errs)
		case c.refused != "" && (len(errs) != 1 || !strings.Contains(errs[0].Field, c.refused)):
			t.Errorf("%s: %v", what, errs)
		}
	}
}
