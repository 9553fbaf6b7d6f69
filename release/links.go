package main

import (
	"path"
	"regexp"
	"strings"
)

// placeholder is what the checkout has in place of the repository's URL, which depends on who releases it.
const placeholder = "https://github.com/OWNER/vmgroup"

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// elsewhere is a page of the checkout for readers elsewhere, such as Artifact Hub or the page of a release: its links to files lead to the
// repository, at this version.
func (r release) elsewhere(page, dir string) string {
	page = link.ReplaceAllStringFunc(page, func(text string) string {
		target := link.FindStringSubmatch(text)[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "#") {
			return text
		}
		return "](" + r.repository + "/blob/" + r.version + "/" + path.Join(dir, target) + ")"
	})
	return r.named(page)
}

// named puts the repository's URL and the image's name into a text of the checkout.
func (r release) named(text string) string {
	return strings.NewReplacer(placeholder, r.repository, "image: vmgroup:dev", "image: "+r.image+":"+r.tag).Replace(text)
}
