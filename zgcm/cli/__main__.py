from zgcm.cli import main

main()
