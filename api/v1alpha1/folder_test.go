package v1alpha1

import "testing"

func TestAFolderHasNoControlCharacters(t *testing.T) {
	for folder, good := range map[string]bool{"teams/shop": true, "Grüße/東京 1": true, "a\nb": false, "a\x1b[2J": false, "a\u009bb": false, "a\u202eb": false, "a\u2028b": false} {
		g := &VmGroup{}
		g.Name, g.Spec.CPU, g.Spec.Memory, g.Spec.Template, g.Spec.Placement.Folder = "web", 1, 1, "ubuntu", folder
		if errs := g.Validate(); len(errs) == 0 != good {
			t.Errorf("%q: %v", folder, errs)
		}
	}
}
